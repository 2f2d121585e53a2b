"""The workspace of an Airflow process: opened once a project, shared by its tasks or its thousands of triggers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.errors import StoreError
from streamwarden.services.workspace import Workspace

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog


@lru_cache(maxsize=8)
def workspace(project: str) -> Workspace:
    """The workspace of the project folder; the data folder and the store's URL come from the environment.

    Neither is passed from task to trigger: a store's URL may hold a password, and a trigger's arguments are kept in
    Airflow's database.
    """
    return Workspace.open(project=Path(project))


def catalog_of(space: Workspace) -> Catalog:
    """The streams of a DAG file, with those that run without a file: their DAGs follow and stop their drivers, and
    launch none. While the store is down, only what the files declare."""
    try:
        return space.fleet_catalog()
    except StoreError:
        return space.catalog()
