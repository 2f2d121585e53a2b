"""Text that a database cannot keep hides no end of a driver and no incident, and no secret reaches the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.sanitize import LONGEST_NAME, storable, to_json
from streamwarden.drills.records.journal import DrillRun, DrillStep, JournalEntry
from streamwarden.errors import LeaseHeld
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, StopRequest
from streamwarden.redaction import REDACTED
from streamwarden.stream.spec import TriggerSpec

BROKEN: Final = "cannot parse 'fl\ud800ight\0' of \N{AIRPLANE}"
READABLE: Final = "cannot parse 'fl\\ud800ight\\x00' of \N{AIRPLANE}"
SECRET: Final = "hunter2-hunter2"
LEAK: Final = f"login of postgresql://ann:{SECRET}@db failed, password={SECRET}"
SAFE: Final = f"login of postgresql://ann:{REDACTED}@db failed, password={REDACTED}"

DRIVER: Final = DriverRecord(
    driver_id="driver-1",
    stream="flights",
    checkpoint="/cp",
    token=1,
    folder="/f",
    launched_by="ann",
    launched_at=1.0,
)


def incident(reason: str) -> Incident:
    return Incident(
        incident_id="1",
        stream="flights",
        check="query_ended",
        status=Status.CRITICAL,
        opened_at=1,
        updated_at=1,
        reason=reason,
        advice=reason,
    )


def write_everything(store: Store, text: str, name: str = "ann") -> None:
    """One record of each kind that has text, and names where it has them."""
    store.drivers.launched(replace(DRIVER, launched_by=name))
    store.drivers.event(DriverEvent(driver_id="driver-1", at=2, kind="signal_sent", detail={"reason": text}))
    store.drivers.exited("driver-1", ExitRecord(kind=ExitKind.FAILED, ended_at=3, message=text, next_step=text))
    store.stops.request(
        StopRequest(
            driver_id="driver-1",
            requested_by=name,
            reason=text,
            requested_at=1,
            batch_deadline=2,
            kill_deadline=3,
            restart=False,
        )
    )
    store.stops.set_desired(
        DesiredState(stream="flights", desired=Desired.STOPPED, changed_by="ann", reason=text, changed_at=1)
    )
    store.queries.started(
        QueryRecord(
            stream="flights",
            name=name,
            checkpoint="/cp",
            trigger=TriggerSpec(),
            driver_id="driver-1",
            query_id="q",
            run_id="r",
            first_at=1,
            started_at=1,
        )
    )
    store.queries.ended("flights", name, "r", 2, text)
    store.verdicts.save(
        [
            Verdict(
                stream="flights",
                check="query_ended",
                status=Status.CRITICAL,
                at=1,
                value=None,
                unit="",
                reason=text,
                advice=text,
                evidence={"error": text},
            )
        ]
    )
    store.incidents.save(incident(text))
    store.journals.save(
        DrillRun(run_id="run", drill="kill", stream="flights", started_at=1, reason=text, facts={"a": [text]})
    )
    entry = JournalEntry(step=DrillStep.FAULT, at=1, kind="struck", message=text, data={"output": text})
    store.journals.append("run", entry)


def read_everything(store: Store) -> list[object]:
    record = store.drivers.get("driver-1")
    assert record is not None
    assert record.exit is not None
    (event,) = store.drivers.events("driver-1")
    stop, state, run = store.stops.pending("driver-1"), store.stops.desired("flights"), store.journals.get("run")
    assert stop is not None
    assert state is not None
    assert run is not None
    (query,) = store.queries.of("flights")
    (verdict,) = store.verdicts.latest("flights")
    (opened,) = store.incidents.open()
    (entry,) = store.journals.entries("run")
    return [
        *(record.exit.message, record.exit.next_step, event.detail["reason"]),
        *(stop.reason, state.reason, query.error),
        *(verdict.reason, verdict.advice, verdict.evidence["error"]),
        *(opened.reason, opened.advice, run.reason, run.facts["a"][0], entry.message, entry.data["output"]),
    ]


def test_text_that_a_database_cannot_keep_is_kept_readable(store: Store) -> None:
    """The error of a job repeats any byte of its input: an end or an incident must not be lost by it."""
    write_everything(store, BROKEN, name=BROKEN)
    assert set(read_everything(store)) == {READABLE}
    record, (query,) = store.drivers.get("driver-1"), store.queries.of("flights")
    assert record is not None
    assert (record.launched_by, query.name) == (READABLE, READABLE)


def test_such_text_is_found_again_and_a_record_is_kept_once(store: Store) -> None:
    write_everything(store, BROKEN, name=BROKEN)
    store.drivers.event(DriverEvent(driver_id="driver-1", at=2, kind="signal_sent", detail={"reason": BROKEN}))
    assert len(store.drivers.events("driver-1")) == 1
    assert [each.ended_at for each in store.queries.of("flights")] == [2]


def test_no_secret_reaches_the_store(store: Store) -> None:
    write_everything(store, LEAK)
    assert set(read_everything(store)) == {SAFE}


def test_a_name_that_is_too_long_is_cut_and_stays_distinct(store: Store) -> None:
    for end in ("a", "b"):
        store.queries.started(
            QueryRecord(
                stream="flights",
                name="n" * 400 + end,
                checkpoint="/cp",
                trigger=TriggerSpec(),
                driver_id="d",
                query_id=end,
                run_id="r",
                first_at=1,
                started_at=1,
            )
        )
    store.queries.ended("flights", "n" * 400 + "b", "r", 5, None)
    assert [(len(each.name), each.ended_at) for each in sorted(store.queries.of("flights"), key=_id)] == [
        (LONGEST_NAME, None),
        (LONGEST_NAME, 5),
    ]


def _id(record: QueryRecord) -> str:
    return record.query_id


def test_a_checkpoint_whose_name_cannot_be_kept_still_has_one_holder(store: Store) -> None:
    store.leases.acquire("/cp/\udcff", stream="one", holder="one-1", ttl=30, now=1)
    with pytest.raises(LeaseHeld):
        store.leases.acquire("/cp/\udcff", stream="two", holder="two-1", ttl=30, now=2)


def test_json_is_cleaned_at_its_leaves_and_its_keys() -> None:
    assert to_json({"a\0": ["\ud800", {"x": Path("/p")}, {3, 1}, 1.5, None, True, Status.OK]}) == (
        r'{"a\\x00":["\\ud800",{"x":"/p"},[1,3],1.5,null,true,"' + Status.OK.value + '"]}'
    )
    with pytest.raises(TypeError, match="object"):
        to_json({"a": object()})


def test_text_that_every_database_keeps_is_kept_as_it_is() -> None:
    assert storable("naïve \N{AIRPLANE}\n\t") == "naïve \N{AIRPLANE}\n\t"
