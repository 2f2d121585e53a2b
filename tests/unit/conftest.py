"""What unit tests of several folders share: checkpoints that real Sparks wrote, and a fresh project."""

import gc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.checkpoints.recorded import Archives, Unpack
from support.streams.projects import Project


@pytest.fixture(scope="session", autouse=True)
def little_garbage() -> Iterator[None]:
    """The collector passes over the six thousand collected tests and over every imported module, and starts seldom: a
    test leaves little garbage."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


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
