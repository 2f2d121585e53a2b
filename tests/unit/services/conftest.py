"""A store for each test of the services, and a workspace with one stream."""

from collections.abc import Iterator
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.services.workspace import Workspace
from support.streams.projects import Project


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url, busy_timeout=20) as opened:
        yield opened


@pytest.fixture
def space(project: Project, store_url: str) -> Iterator[Workspace]:
    """A project with the stream `counted`, which has never run."""
    project.stream("counted")
    with Workspace.open(project.root, project.data, store_url, environ={}) as opened:
        yield opened


@pytest.fixture(scope="module")
def one_database() -> Iterator[None]:
    """All comparisons of a file in one DuckDB, each with tables of its own: to open a database takes twenty times as
    long as to compare some rows."""
    import duckdb

    open_database, opened = duckdb.connect, []

    def connect(config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        if not opened:
            opened.append(open_database(config=config))
        return opened[0].cursor()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(duckdb, "connect", connect)
        yield
    for database in opened:
        database.close()
