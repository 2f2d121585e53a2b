"""Bad days of the store: each is a StoreError that says where and what to do, in time, without the password."""

import os
import pickle
import shutil
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseLost, StoreError
from support.children import Line, children
from support.streams.reports import QUERY, report

BUSY = 0.3
"""Busy timeout of the stores in these tests, seconds."""

NOBODY = 65534


def keep_locked(path: Path) -> Callable[[Line], None]:
    """A child that holds the write lock of the store until the test releases it."""

    def hold(line: Line) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            line.say("locked")
            line.wait()
            connection.execute("ROLLBACK")
        line.say("free")

    return hold


WRITES: dict[str, Callable[[Store], Any]] = {
    "a lease claim": lambda store: store.leases.acquire("/c", stream="flights", holder="d", ttl=30, now=0),
    "a progress report": lambda store: store.batches.upsert_progress("flights", report(1)),
    "a roll-up": lambda store: store.roll_up(1e10),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_another_process_keeps_the_store_locked(
    path: Path, open_store: Callable[..., Store], write: Callable[[Store], Any]
) -> None:
    """The write fails within the busy timeout, reads go on, and the write works once the lock is gone."""
    store = open_store(busy_timeout=BUSY)
    with children(1, keep_locked(path)) as (locker,):
        assert locker.hear() == "locked"
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"locked for more than 0\.3 s") as caught:
            write(store)
        waited = time.monotonic() - began
        assert BUSY * 0.8 <= waited < BUSY + 5
        assert str(path) in caught.value.where
        assert "fuser" in caught.value.next_step
        assert store.batches.window("flights") == ()
        locker.tell("let go")
        assert locker.hear() == "free"
    write(store)


def test_the_file_was_never_created(tmp_path: Path) -> None:
    """Opening is not creating: a store that vanished must not come back empty by itself."""
    path = tmp_path / "gone" / "streamwarden.db"
    with Store(f"sqlite:///{path}") as store, pytest.raises(StoreError, match="cannot be opened") as caught:
        store.leases.current("/c")
    assert str(path) in str(caught.value)
    assert not path.exists()


def test_the_file_is_deleted_while_the_store_is_open(path: Path, store: Store) -> None:
    """An open connection would continue to write into the deleted file, which no process reads."""
    store.batches.upsert_progress("flights", report(1))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        (path.parent / name).unlink(missing_ok=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        store.batches.upsert_progress("flights", report(2))
    assert not path.exists()


def test_the_file_is_replaced_while_the_store_is_open(path: Path, migrated: Path, store: Store) -> None:
    """The next call uses the new file."""
    store.batches.upsert_progress("flights", report(1))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        (path.parent / name).unlink(missing_ok=True)
    shutil.copy(migrated, path)
    assert store.batches.window("flights") == ()
    store.batches.upsert_progress("flights", report(2))
    assert [batch.batch_id for batch in store.batches.window("flights")] == [2]


def test_the_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "streamwarden.db"
    path.write_bytes(b"this was a database once, and then somebody wrote a log over it\n" * 200)
    with Store(f"sqlite:///{path}") as store:
        calls: list[Callable[[Store], Any]] = [Store.migrate, lambda store: store.leases.current("/c")]
        for call in (*calls, *WRITES.values()):
            with pytest.raises(StoreError, match="damaged") as caught:
                call(store)
            assert "restore a backup" in caught.value.next_step


def test_pages_in_the_middle_of_the_file_are_damaged(path: Path, open_store: Callable[..., Store]) -> None:
    store = open_store()
    store.batches.upsert_many("flights", [report(batch_id) for batch_id in range(100)])
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes([7]) * (len(whole) - 4096))
    with pytest.raises(StoreError, match="damaged"):
        store.batches.window("flights")


def test_the_tables_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "streamwarden.db"
    path.touch()
    with Store(f"sqlite:///{path}") as store, pytest.raises(StoreError, match="not been migrated"):
        store.drivers.latest("flights")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach (pytest's own are private to one)."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def refusal(path: Path, act: Callable[[Store], object]) -> Any:
    """The error of a process without privileges that does `act` to the store at `path`; None if there is none."""

    def attempt(line: Line) -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        with Store(f"sqlite:///{path}") as store:
            try:
                act(store)
            except StoreError as error:
                line.say(error)
            else:
                line.say(None)

    with children(1, attempt) as (child,):
        return child.hear()


def test_the_folder_is_read_only(migrated: Path, open_folder: Path) -> None:
    path = Path(shutil.copy(migrated, open_folder / "streamwarden.db"))
    path.chmod(0o444)
    open_folder.chmod(0o555)
    error = refusal(path, lambda store: store.batches.upsert_progress("flights", report(1)))
    assert isinstance(error, StoreError)
    assert "cannot be written" in error.observed or "cannot be opened" in error.observed
    assert str(path) in error.where
    assert error.next_step


def test_a_store_cannot_be_created_in_a_read_only_folder(open_folder: Path) -> None:
    path = open_folder / "streamwarden.db"
    open_folder.chmod(0o555)
    error = refusal(path, lambda store: store.migrate())
    assert isinstance(error, StoreError)
    assert "cannot be written" in error.observed


SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+nosuchdriver://warden:{SECRET}@db/streamwarden",
        f"postgresql+nosuchdriver://warden@db/streamwarden?password={SECRET}",
        f"mysql://warden:{SECRET}@db/streamwarden",
        f"postgresql://warden:{SECRET}@db:not-a-port/streamwarden",
        f"no url at all with {SECRET}",
        f"sqlite:///x.db?password={SECRET}",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_cannot_work_is_refused_without_repeating_its_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store(url)
    error = caught.value
    everything = "".join(traceback.format_exception(error)) + repr(error) + str(pickle.loads(pickle.dumps(error)))
    assert SECRET not in everything.replace(url, "")  # pytest's own line of source may show the call
    assert SECRET not in str(error)
    assert error.next_step


def test_a_store_shows_where_it_is_and_no_password(store: Store, path: Path) -> None:
    assert repr(store) == f"Store(sqlite:///{path})"


def open_files(path: Path) -> int:
    """How often this process has the file open."""
    links = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this very listing is gone by now
            links.append(link.readlink())
    return links.count(path)


def test_a_forked_child_uses_the_store_and_leaves_its_parent_alone(store: Store, path: Path) -> None:
    """Airflow forks its task processes; a connection that two processes share would damage the file."""
    store.batches.upsert_progress("flights", report(1))

    def work(line: Line) -> None:
        inherited = open_files(path)
        store.batches.upsert_progress("flights", report(2))
        line.say([batch.batch_id for batch in store.batches.window("flights")])
        line.say((inherited, open_files(path)))

    with children(1, work) as (child,):
        assert child.hear() == [1, 2]
        inherited, used = child.hear()
        assert used > inherited, "the child must open its own connection and leave the inherited one open"
    store.batches.upsert_progress("flights", report(3))
    assert store.batches.missing("flights", QUERY, 3, since=1) == ()


def test_errors_of_the_lease_are_not_mistaken_for_errors_of_the_store(store: Store) -> None:
    lease = store.leases.acquire("/c", stream="flights", holder="d1", ttl=1, now=0)
    store.leases.acquire("/c", stream="flights", holder="d2", ttl=1, now=5)
    with pytest.raises(LeaseLost):
        store.leases.renew(lease, ttl=1, now=6)
