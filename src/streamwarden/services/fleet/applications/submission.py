"""Submits a driver to its cluster with the spark-submit that was installed with this package."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm.environments import own, spark_variables
from streamwarden.adapters.jvm.java import find_java
from streamwarden.clusters import manager_of
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.applications import application_of
from streamwarden.services.fleet.launching.launch import RUNNER
from streamwarden.stream.spec import StreamSpec

SUBMITTED_WITHIN: Final = 300.0
"""Seconds; a submission uploads files to the cluster's storage."""


def submit(spec: StreamSpec, folder: Path, environ: Mapping[str, str]) -> str:
    """Submit the driver of this folder and return its application. Its log is the output of spark-submit.

    Args:
        environ: variables of spark-submit beside this process's own.

    Raises ProcessError if spark-submit fails, or the manager does not know the application then.
    """
    in_cluster = manager_of(spec.spark.master).in_cluster
    detached = in_cluster.detached if in_cluster is not None else {}
    options = [word for key, value in detached.items() for word in ("--conf", f"{key}={value}")]
    command = [own().submit, "--properties-file", str(folder / files.PROPERTIES)]
    with (folder / files.LOG).open("ab") as log:
        done = subprocess.run(
            [*command, *options, str(RUNNER), str(folder)],
            env={**spark_variables(own(), find_java()), **environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=SUBMITTED_WITHIN,
            check=False,
        )
    application = application_of(spec, folder.name, {**os.environ, **environ}) if done.returncode == 0 else None
    identifier = None if application is None else application.identifier()
    if identifier is None:
        raise ProcessError(
            f"spark-submit ended with {done.returncode} and submitted no driver",
            expected="an application of the cluster",
            where=str(folder / files.LOG),
            next_step="read that log",
        )
    return identifier
