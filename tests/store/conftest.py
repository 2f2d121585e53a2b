"""A migrated store for each test, opened as often as it wants."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from support.streams.stores import opener


@pytest.fixture
def path(migrated: Path, tmp_path: Path) -> Path:
    """The file of a migrated, empty store."""
    return Path(shutil.copy(migrated, tmp_path / "streamwarden.db"))


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[..., Store]]:
    """Opens the store of this test, as often as wanted."""
    with opener(f"sqlite:///{path}") as open_one:
        yield open_one


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
