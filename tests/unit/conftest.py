"""What unit tests of several folders share: checkpoints that real Sparks wrote, and a fresh project."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.checkpoints import Archives, Unpack
from support.projects import Project


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
