"""The file of a store is private, whatever the umask, and holds no secret."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.test_stored_text import SECRET, write_everything
from streamwarden.adapters.store import Store


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_store_is_readable_by_its_owner_alone(umask: int, tmp_path: Path) -> None:
    """With its log and its index, which SQLite creates beside it."""
    path = tmp_path / "data" / "streamwarden.db"
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
        write_everything(store, "text")
        files = {each.name: oct(mode(each)) for each in path.parent.iterdir()}
    assert set(files.values()) == {"0o600"}
    assert len(files) == 3
    assert mode(path.parent) == 0o777 & ~umask, "other data in this folder may be for other users"


@pytest.mark.parametrize("given", [0o644, 0o660], ids=oct)
def test_a_file_that_exists_keeps_its_mode(tmp_path: Path, given: int) -> None:
    """It was given to a group or to others by somebody."""
    path = tmp_path / "old.db"
    path.touch()
    path.chmod(given)
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
    assert mode(path) == given


def test_no_file_of_the_store_holds_a_secret(open_store: Callable[..., Store], path: Path) -> None:
    store = open_store()
    write_everything(store, f'{{"kafka.sasl.jaas.config": "x {SECRET}"}} password={SECRET}')
    files = list(path.parent.glob(f"{path.name}*"))
    assert len(files) == 3
    for each in files:
        assert SECRET.encode() not in each.read_bytes(), each
