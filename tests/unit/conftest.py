"""What unit tests of several folders share: checkpoints that real Sparks wrote, and a fresh project."""

import gc
import logging
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from support import killed
from support.checkpoints.recorded import Archives, Unpack
from support.one_dialect import compiled_once
from support.streams.projects import Project


@pytest.fixture(scope="session", autouse=True)
def little_garbage() -> Iterator[None]:
    """The collector starts seldom: a test leaves little garbage."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> Iterator[None]:
    with compiled_once():
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    killed.end()


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """What is logged. `caplog` would need pytest's plugin, which handles the logs of every test."""
    handler = logging.StreamHandler(text := StringIO())
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="session")
def one_database() -> Iterator[None]:
    """All comparisons in one DuckDB, each with tables of its own: to open a database takes twenty times as long as to
    compare some rows. One thread, for so few rows more wait for one another."""
    import duckdb

    open_database, opened = duckdb.connect, []

    def connect(config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        if not opened:
            opened.append(open_database(config={**config, "threads": 1}))
        return opened[0].cursor()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(duckdb, "connect", connect)
        yield
    for database in opened:
        database.close()


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archives]:
    made = Archives(tmp_path_factory.mktemp("checkpoints"))
    yield made
    made.check()


@pytest.fixture
def unpack(archives: Archives) -> Unpack:
    """Lays out the checkpoint of this name in a folder."""
    return archives.unpack


@pytest.fixture(scope="session")
def whole(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint of this name, laid out once for all tests that only read it."""
    root = tmp_path_factory.mktemp("whole")
    return cache(lambda name: archives.unpack(name, root / name))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh project."""
    return Project.make(tmp_path)
