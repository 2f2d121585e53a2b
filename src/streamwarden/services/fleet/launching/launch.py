"""Launches one driver: writes its folder and its environment, and starts its supervisor process."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from streamwarden import disk
from streamwarden.adapters.connections import PREFIX, remember_all, variable
from streamwarden.adapters.jvm.connectors import with_connector
from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import QUICK
from streamwarden.adapters.storage import object_stores
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.checkpoint.spark_support import named_in
from streamwarden.clusters import manager_of
from streamwarden.errors import ConfigError, ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.settings import CHECKPOINT_FILES, WHOLE_UPLOADS
from streamwarden.lifecycle.submission import (
    cluster_environment,
    driver_properties,
    properties_text,
    secret_options,
    submit_command,
)
from streamwarden.lifecycle.supervision.standby import is_kept
from streamwarden.redaction import is_redacted, is_secret
from streamwarden.services.fleet.launching import class_archive, supervisor_process
from streamwarden.services.fleet.launching.addresses import listening_environment
from streamwarden.services.fleet.launching.deployed_code import PROGRAMS, code_of
from streamwarden.services.fleet.launching.environment import declared, inherited
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

RUNNER: Final = PROGRAMS / "driver.py"
"""The application of a driver in this environment."""

SPAWN_TIMEOUT: Final = 20.0
"""Seconds within which a supervisor process has started its driver (0.1 s on an idle machine)."""

FOLDER_VARIABLE: Final = "STREAMWARDEN_FOLDER"
"""Names its folder in the environment of each process of a driver or of a program, by which these are found. It is the
same variable for all of them: a job must not see which of them runs it."""


def working_folder(spec: StreamSpec, data: Path) -> Path:
    """The driver's data folder, which is its working directory: that of the project, or a fork's own."""
    return Path(spec.data) if spec.data and Path(spec.data).is_dir() else data


def driver_environment(
    spec: StreamSpec, data: Path, store_url: str, more: Mapping[str, str] | None, *, own_spark: bool
) -> dict[str, str]:
    """The driver's variables: from this process, from `more`, and this package's own. Raises ProcessError if
    there is no usable Java, and ConfigError for a variable that is missing, or a connection to an object store that is
    missing or cannot be used.

    Args:
        own_spark: the driver runs on the Spark of the stream's environment, not on one that the caller named.
    """
    everything = {**os.environ, **(more or {})}
    variables = {name: variable(name) for name in spec.connections}
    own_store = _has_own_store(spec, everything)
    merged = {**inherited(everything, spec, connections=variables, own_store=own_store), **(more or {})}
    merged["JAVA_HOME"] = str(find_java(everything))
    merged["STREAMWARDEN_STORE_URL"] = store_url
    merged |= _places(spec, data)
    if spec.project:
        merged["STREAMWARDEN_PROJECT"] = spec.project
    merged = _on_its_spark(spec, merged, own_spark=own_spark)
    merged["PYTHONUNBUFFERED"] = "1"
    # Spark's launcher is a separate JVM that runs for a second: let it compile cheaply.
    merged.setdefault("SPARK_LAUNCHER_OPTS", " ".join(QUICK))
    remember_all(merged)
    merged |= listening_environment(spec.spark, merged)
    for name, value in _store_environment(spec, merged).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _places(spec: StreamSpec, data: Path) -> dict[str, str]:
    """The variables that tell a driver where relative paths are: those of its stream's file, and its own."""
    here = str(working_folder(spec, data))
    return {"STREAMWARDEN_DATA": spec.data_url or here, "STREAMWARDEN_LOCAL_DATA": here}


def _on_its_spark(spec: StreamSpec, variables: Mapping[str, str], *, own_spark: bool) -> dict[str, str]:
    """The variables with the interpreter and the Spark of the stream's environment. A stream that names none keeps the
    Spark that its caller named."""
    made = environment_of(spec.spark).variables(variables)
    if own_spark or spec.spark.python is not None:
        return made
    del made["SPARK_HOME"]
    return {**made, **{name: value for name, value in variables.items() if name == "SPARK_HOME"}}


def _has_own_store(spec: StreamSpec, environ: Mapping[str, str]) -> bool:
    """Whether the stream is in an object store that it reaches with the credentials of this host."""
    name = spec.storage.connection
    return bool(spec.in_object_store) and (name is None or object_stores.access(name, environ).key is None)


def _store_environment(spec: StreamSpec, environ: Mapping[str, str]) -> dict[str, str | None]:
    """The variables by which a driver finds the object store of its stream's connection; see `object_stores`."""
    name = spec.storage.connection
    return {} if name is None else object_stores.environment(object_stores.access(name, environ))


def write_folder(
    spec: StreamSpec,
    folder: Path,
    data: Path,
    environment: Mapping[str, str],
    more: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
) -> None:
    """Write the files for the driver's start but its lease: spec, Spark's properties with `more`. The files are
    private.

    Args:
        command: see `Starter.start`; kept for the standby of a stream that has one.

    Raises ProcessError if the stream needs jars that are missing, ConfigError for a spec whose secrets are redacted.
    """
    from streamwarden.config.stored_spec import (
        spec_to_dict,  # pydantic: a process that only observes does not import it
    )

    disk.private_folder(folder / files.TEMPORARY, below=data)
    document = spec_to_dict(spec)
    if is_redacted(document):
        raise ConfigError(
            "a secret of the stream is not known any more: the stored specification holds only its place",
            expected=f"the same secret in {spec.file or 'the file of the stream'} as when the run began",
            where=f"stream {spec.name}",
            next_step="begin a new run: it reads the stream's file again",
        )
    files.write_spec(folder, document)
    files.write_document(folder / files.CODE, code_of(spec))
    if is_kept(spec):
        files.write_document(folder / files.LAUNCH, {"command": None if command is None else list(command)})
    write_properties(folder, spec, {**(more or {}), **driver_settings(spec, folder, data, environment)})


def driver_settings(spec: StreamSpec, folder: Path, data: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """`settings_of`, and what a template of a pod in `folder` adds. Raises ProcessError."""
    return _template(spec, folder) | settings_of(spec, folder, data, environment)


def settings_of(spec: StreamSpec, folder: Path, data: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for a driver whose folder is `folder`, which need not exist. They may hold secrets.

    Raises ProcessError if the stream needs jars that are missing.
    """
    runs_in = environment_of(spec.spark)
    flags = class_archive.flags(runs_in, Path(environment["JAVA_HOME"]))
    conf = named_in(driver_properties(spec, folder, python=runs_in.python, jvm_flags=flags), runs_in.minor)
    conf.setdefault("spark.sql.warehouse.dir", to_hadoop(str(working_folder(spec, data) / "warehouse")))
    if spec.in_object_store:
        conf = store_settings(spec, object_stores.access(spec.storage.connection, environment)) | conf
    return with_connector(spec, conf, runs_in.minor)


def write_properties(folder: Path, spec: StreamSpec, conf: dict[str, str]) -> None:
    """Write Spark's settings; a JVM option that holds a secret goes into a file of its own."""
    if spec.spark.deploy_mode is DeployMode.CLIENT:  # elsewhere this folder is not where the JVM runs
        conf, options = secret_options(conf, folder)
        if options is not None:
            files.write_text(folder / files.OPTIONS, options)
    files.write_text(folder / files.PROPERTIES, properties_text(conf))


def _template(spec: StreamSpec, folder: Path) -> dict[str, str]:
    """The setting that names the description of the pod of a driver in cluster mode, which is written into the folder.
    The stream's file may name another."""
    given = manager_of(spec.spark.master).in_cluster
    if spec.spark.deploy_mode is DeployMode.CLIENT or given is None or given.template is None:
        return {}
    setting, text = given.template
    files.write_text(folder / files.POD, text(spec.stop))
    return {setting: (folder / files.POD).as_uri()}


def remote_environment(spec: StreamSpec, data: Path, store_url: str, more: Mapping[str, str]) -> dict[str, str]:
    """Settings for a driver in cluster mode, like `driver_environment` for a local one. Raises ConfigError.

    Connections, a store URL with a password and the key of an object store are passed as secrets.
    """
    asked = declared({**os.environ, **more}, spec)
    own = {**asked, "STREAMWARDEN_STORE_URL": store_url, "PYTHONUNBUFFERED": "1"}
    own |= _places(spec, data)
    if spec.project:
        own["STREAMWARDEN_PROJECT"] = spec.project
    there = _store_environment(spec, {**os.environ, **more})
    own |= {name: value for name, value in there.items() if value is not None}
    secret = [*object_stores.SECRETS, *(name for name in (*more, *asked) if name.startswith(PREFIX) or is_secret(name))]
    if urlsplit(store_url).password:
        secret.append("STREAMWARDEN_STORE_URL")
    return cluster_environment(spec, {**more, **own}, secret=secret)


def store_settings(spec: StreamSpec, known: object_stores.ObjectStoreAccess) -> dict[str, str]:
    """Spark's settings for a stream in an object store.

    By default Spark writes a file of a log under another name and renames it, which an object store does by a copy:
    slower, and two objects. The alternative, an upload that becomes visible as a whole when it is completed, applies to
    every log of the query, so it is chosen only if all of them are in the object store.
    """
    settings = object_stores.spark_settings(known)
    logs = {"checkpoint", "sink"} if spec.sink.path is not None else {"checkpoint"}
    return settings | {CHECKPOINT_FILES: WHOLE_UPLOADS} if logs <= spec.in_object_store else settings


def spawn(
    spec: StreamSpec, folder: Path, data: Path, command: Sequence[str] | None, environment: Mapping[str, str]
) -> ProcessIdentity | None:
    """Start the supervisor process and wait until it has started the driver. None: the driver ended at once.

    Raises:
        ProcessError: the supervisor process did not start a driver in time.
    """
    begin(_command(spec, folder, command), folder, working_folder(spec, data), environment)

    def has_begun() -> bool:
        return files.read_process(folder) is not None or (folder / files.EXIT).exists()

    if wait_until(has_begun, within=SPAWN_TIMEOUT, every=0.02):
        return files.read_process(folder)
    raise ProcessError(
        "the supervisor process did not start the driver",
        expected=f"{files.PROCESS} within {SPAWN_TIMEOUT:.0f} s",
        where=str(folder),
        next_step=f"read {files.LOG} there, then start the stream again",
    )


def _command(spec: StreamSpec, folder: Path, prefix: Sequence[str] | None) -> list[str]:
    """The argv of a driver: spark-submit's, or in a group the Python process alone, whose JVM runs already."""
    runs_in = environment_of(spec.spark)
    runner = runs_in.programs / RUNNER.name
    if spec.group is None:
        return submit_command(spec, folder, runner=runner, spark_submit=runs_in.submit, prefix=prefix)
    return [runs_in.python, "-P", str(runner), str(folder)]


def begin(command: Sequence[str], folder: Path, working: Path, environment: Mapping[str, str]) -> None:
    """Start the supervisor process of `folder`, which starts the command in the working folder."""
    launch = subprocess.Popen(
        # -P: a module in the working directory must not hide one of the same name.
        [sys.executable, "-P", "-m", supervisor_process.__name__, str(folder), "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
        cwd=working,  # relative paths of a job are below it, as those of its stream's file are
        env={**environment, FOLDER_VARIABLE: str(folder)},
    )
    launch.wait(timeout=SPAWN_TIMEOUT)  # the supervisor process detaches itself at once
