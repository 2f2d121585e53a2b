"""The workspace of an Airflow process: opened once a project, shared by its tasks or its thousands of triggers."""

from functools import lru_cache
from pathlib import Path

from streamwarden.services.workspace import Workspace


@lru_cache(maxsize=8)
def workspace(project: str) -> Workspace:
    """The workspace of the project folder; the data folder and the store's URL come from the environment.

    Neither is passed from task to trigger: a store's URL may hold a password, and a trigger's arguments are kept in
    Airflow's database.
    """
    return Workspace.open(project=Path(project))
