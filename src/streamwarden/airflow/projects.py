"""Which project and data folder the DAG files of an Airflow installation speak of."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Start date of every DAG: in the past and fixed, as Airflow wants it; no DAG catches up."""

TAG: Final = "streamwarden"


def project_of(dag_file: str) -> Path:
    """STREAMWARDEN_PROJECT, or the project whose folder `dags/` holds `dag_file`."""
    named = os.environ.get("STREAMWARDEN_PROJECT")
    return Path(named) if named else Path(dag_file).resolve().parents[1]


def plugin_project() -> Path | None:
    """The project that the API server's pages speak of: STREAMWARDEN_PROJECT, or the one around the DAGs folder."""
    from airflow.configuration import conf

    if os.environ.get("STREAMWARDEN_PROJECT"):
        return None  # the workspace reads the variable itself
    return Path(conf.get("core", "dags_folder")).resolve().parent


def data_of(project: Path) -> Path:
    """STREAMWARDEN_DATA, or `var` in the project."""
    named = os.environ.get("STREAMWARDEN_DATA")
    return Path(named) if named else project / "var"
