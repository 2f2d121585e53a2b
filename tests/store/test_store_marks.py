"""The marks of a stream change with its status, and with nothing that each batch writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from support.streams.queries import query_record
from support.streams.reports import report

NOW = 1_800_000_000.0
DRIVER = DriverRecord(
    driver_id="a-1", stream="a", checkpoint="/c", token=1, folder="/f", launched_by="a test", launched_at=NOW
)


def _incident(status: Status = Status.WARNING, **more: float) -> Incident:
    return Incident(
        incident_id="i", stream="a", check="backlog", status=status, opened_at=NOW, updated_at=NOW, reason="", **more
    )


def _run(**more: float) -> DrillRun:
    return DrillRun(run_id="r", drill="kill", stream="a", started_at=NOW, status=DrillStatus.RUNNING, **more)


STEPS: tuple[Callable[[Store], object], ...] = (
    lambda store: store.drivers.launched(DRIVER),
    lambda store: store.drivers.started("a-1", "q", "run", NOW + 1),
    lambda store: store.drivers.event(DriverEvent(driver_id="a-1", at=NOW + 2, kind="reattached", detail={})),
    lambda store: store.queries.started(query_record("a", "left", driver="a-1", at=NOW)),
    lambda store: store.queries.ended("a", "left", query_record("a", "left", driver="a-1", at=NOW).run_id, NOW, None),
    lambda store: store.incidents.save(_incident()),
    lambda store: store.incidents.save(_incident(Status.CRITICAL)),
    lambda store: store.incidents.save(_incident(resolved_at=NOW + 3)),
    lambda store: store.journals.save(_run()),
    lambda store: store.journals.save(_run(ended_at=NOW + 4)),
    lambda store: store.stops.set_desired(
        DesiredState(stream="a", desired=Desired.STOPPED, changed_by="ann", reason="it moves", changed_at=NOW)
    ),
    lambda store: store.drivers.exited("a-1", ExitRecord(kind=ExitKind.KILLED, ended_at=NOW + 5, signal=9)),
)
"""What happens to the stream `a`, in this order."""


def test_each_change_of_a_status_changes_the_marks_of_its_stream_alone(store: Store) -> None:
    store.drivers.launched(replace(DRIVER, driver_id="b-1", stream="b"))
    before = store.marks.of_streams(NOW)
    for number, step in enumerate(STEPS):
        step(store)
        marks = store.marks.of_streams(NOW)
        assert marks.get("a") != before.get("a"), f"step {number}"
        assert marks["b"] == before["b"]
        before = marks


def test_batches_change_no_mark(store: Store) -> None:
    STEPS[0](store)
    before = store.marks.of_streams(NOW)
    store.batches.upsert_progress("a", report(1, at=NOW))
    assert store.marks.of_streams(NOW) == before


def test_another_reader_knows_the_same_events(store: Store, open_store: Callable[..., Store]) -> None:
    """Each reader remembers which events it has read."""
    for step in STEPS[:3]:
        step(store)
        store.marks.of_streams(NOW)
    assert open_store().marks.of_streams(NOW) == store.marks.of_streams(NOW)


@pytest.mark.parametrize("ended", [False, True])
def test_a_mute_changes_the_marks_of_all(store: Store, ended: bool) -> None:
    mute = Mute(
        mute_id="m", who="ann", reason="it moves", created_at=NOW, starts_at=NOW, until=NOW + 60, streams=("a",)
    )
    if ended:
        store.mutes.add(mute)
    before = store.marks.of_people()
    if ended:
        store.mutes.end("m", at=NOW + 1, by="ann", reason="it has moved")
    else:
        store.mutes.add(mute)
    assert store.marks.of_people() != before
