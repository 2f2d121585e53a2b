"""Savepoints that a schedule takes: what is deleted then, and what never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.errors import CheckpointError
from streamwarden.health.checks.state.savepoint_overdue import NEWEST
from streamwarden.health.signals.saved import NewestSavepoint
from streamwarden.lifecycle.exchanges.exchange import journal_of
from streamwarden.lifecycle.savepoints.retention import beyond
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.savepoints import creating
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.folders import in_use
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.scheduled import take_scheduled
from streamwarden.services.savepoints.verifying import verify
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of

ANN = Author(by="ann@host (command line)", reason="before the upgrade")
AIRFLOW = Author(by="savepoint_s (Airflow)", reason="scheduled")


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    spec = stream_of(tmp_path / "origin", files=0)
    return replace(spec, data=str(tmp_path / "data"), savepoints=SavepointsSpec(schedule="@daily", keep=2))


def at(spec: StreamSpec, batch: int, *, scheduled: bool) -> str:
    """A savepoint of an older batch."""
    return create(spec, batch, replace(AIRFLOW if scheduled else ANN, scheduled=scheduled)).id


def test_the_oldest_scheduled_ones_are_deleted_and_never_one_of_a_person(spec: StreamSpec) -> None:
    persons, oldest, old = at(spec, 8, scheduled=False), at(spec, 9, scheduled=True), at(spec, 10, scheduled=True)
    done = take_scheduled(spec, AIRFLOW)
    assert (done.taken, done.removed, done.savepoint.scheduled) == (True, (oldest,), True)
    assert Savepoints.of(spec).ids() == [done.savepoint.id, old, persons]
    seen = probe(spec).readings[NEWEST]
    assert isinstance(seen, NewestSavepoint)
    assert (seen.id, seen.batch, seen.query_id) == (done.savepoint.id, done.savepoint.batch, done.savepoint.query_id)


@pytest.mark.parametrize(
    ("scheduled", "keep", "removed"),
    [
        ([True, True, True], 2, ["20260101T000000Z"]),
        ([True, True, True], 1, ["20260101T000000Z", "20260101T000001Z"]),
        ([True, True, True], 0, ["20260101T000000Z", "20260101T000001Z"]),
        ([False, True, True], 1, ["20260101T000001Z"]),
        ([True, False, False], 1, []),
        ([True, True, True], 7, []),
        ([], 1, []),
    ],
)
def test_the_newest_one_is_always_kept(spec: StreamSpec, scheduled: list[bool], keep: int, removed: list[str]) -> None:
    one = create(spec, None, ANN)
    saved = [replace(one, id=f"20260101T00000{n}Z", scheduled=auto) for n, auto in enumerate(scheduled)]
    assert beyond(saved, keep) == removed


def test_a_stream_that_stands_still_does_not_push_out_its_older_savepoints(spec: StreamSpec) -> None:
    older = at(spec, 9, scheduled=True)
    first, again = take_scheduled(spec, AIRFLOW), take_scheduled(spec, AIRFLOW)
    assert (again.taken, again.savepoint, again.removed) == (False, first.savepoint, ())
    assert Savepoints.of(spec).ids() == [first.savepoint.id, older]


def test_a_damaged_copy_of_the_newest_batch_is_taken_again(spec: StreamSpec) -> None:
    first, savepoints = take_scheduled(spec, AIRFLOW).savepoint, Savepoints.of(spec)
    file = next(file.path for file in first.files if file.path.endswith(".changelog"))
    Path(savepoints.place(first.id).path, file).unlink()
    again = take_scheduled(spec, AIRFLOW)
    assert again.taken
    assert (again.savepoint.id != first.id, verify(savepoints, again.savepoint)) == (True, ())


def test_nothing_is_deleted_if_none_can_be_taken(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [at(spec, batch, scheduled=True) for batch in (8, 9, 10)]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(creating, "carry_out", full)
    with pytest.raises(CheckpointError, match="No space left on device") as refusal:
        take_scheduled(spec, AIRFLOW)
    assert refusal.value.next_step
    assert Savepoints.of(spec).ids() == kept[::-1]


def test_one_that_is_forked_or_restored_meanwhile_is_not_deleted(spec: StreamSpec) -> None:
    oldest, _, savepoints = at(spec, 8, scheduled=True), at(spec, 9, scheduled=True), Savepoints.of(spec)
    with in_use(savepoints.place(oldest)):
        assert verify(savepoints, savepoints.get(oldest)) == (), "the mark is no part of it"
        assert take_scheduled(spec, AIRFLOW).removed == ()
        with pytest.raises(CheckpointError, match="is being forked or restored"):
            delete(savepoints, oldest)
    delete(savepoints, oldest)


def test_one_is_read_where_nothing_can_be_written(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that is mounted read-only."""
    place = Savepoints.of(spec).place(at(spec, 8, scheduled=True))

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(LocalFiles, "write", refuse)
    with in_use(place):
        assert "savepoint.json" in place.names()


def test_nothing_is_deleted_while_a_restore_is_not_complete(spec: StreamSpec) -> None:
    for batch in (8, 9):
        at(spec, batch, scheduled=True)
    Path(journal_of(spec.checkpoint)).write_text("{}")
    assert take_scheduled(spec, AIRFLOW).removed == ()
