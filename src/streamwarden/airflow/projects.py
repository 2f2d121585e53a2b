"""The project and the data folder that the DAG files of an Airflow installation belong to."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamwarden.services.workspace import PROJECT_VARIABLE, find_data, find_project

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Start date of every DAG: in the past and fixed, as Airflow wants it; no DAG catches up."""

TAG: Final = "streamwarden"


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


def data_of(project: Path) -> Path:
    """STREAMWARDEN_DATA, or `var` in the project."""
    return find_data(project)
