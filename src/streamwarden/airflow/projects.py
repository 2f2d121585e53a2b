"""The project that the DAG files of an Airflow installation belong to."""

import hashlib
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG

from streamwarden.config.isolation import isolated
from streamwarden.errors import ConfigError
from streamwarden.services.workspace import PROJECT_VARIABLE, find_project

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Start date of every DAG: in the past and fixed, as Airflow wants it; no DAG catches up."""

ALWAYS_ON: Final[dict[str, Any]] = {
    "start_date": START,
    "catchup": False,
    "is_paused_upon_creation": False,
    "max_active_runs": 1,
}
"""Arguments of a DAG that works from the beginning, one run at a time."""

TAG: Final = "streamwarden"

_READABLE: Final = 40
"""Characters of a file's name that an id keeps, if no stream and no drill may have that name."""


def dag_name(stem: str, pattern: re.Pattern[str]) -> str:
    """The part of a file's DAG id that follows the prefix; different files never have the same id.

    A name that fits `pattern` stays as it is. Any other name gets a hyphen, which `pattern` does not allow, and a
    digest, so that `kill driver.yaml` does not replace the DAG of `kill_driver.yaml`. Pure.
    """
    if pattern.fullmatch(stem):
        return stem
    digest = hashlib.sha256(stem.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', stem)[:_READABLE]}-{digest}"


def built(dag: Callable[[], DAG], broken: Callable[[ConfigError], DAG], where: str) -> DAG:
    """The DAG that `dag` builds; if an exception prevents that, the one that `broken` builds for the error.

    An exception in a DAG file removes every DAG of that file, so the failure of one DAG must not get out.
    """
    try:
        with isolated(where, "its DAG was built"):
            return dag()
    except ConfigError as error:
        return broken(error)


def project_of(dag_file: str) -> Path:
    """STREAMWARDEN_PROJECT, or the project around `dag_file`. Raises ConfigError if there is none."""
    return _project(Path(dag_file).parent)


def plugin_project() -> Path:
    """The project that the API server's pages show: STREAMWARDEN_PROJECT, or the one around the DAGs folder. Raises
    ConfigError if there is none."""
    from airflow.configuration import conf

    return _project(Path(conf.get("core", "dags_folder")))


def _project(folder: Path) -> Path:
    named = os.environ.get(PROJECT_VARIABLE)
    return find_project(named, Path.cwd() if named else folder.resolve())
