"""A small fleet for the pages and the API, with a script in each text that a job or a person wrote."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.savepoints.savepoint import Savepoint, SinkPosition, began_at
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.lifecycle.surgery.assignment import Assigned, Assignment
from streamwarden.lifecycle.surgery.rewriting import Found, Keys
from streamwarden.lifecycle.time_travel.answers import Entry as StateEntry
from streamwarden.lifecycle.time_travel.answers import Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.savepoints.documents import write_manifest
from streamwarden.services.savepoints.folders import claim_new, release
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state.assigning import Setting, ValueChange
from streamwarden.services.state.deleting import Counted, Deletion
from streamwarden.services.state.looks import Looks, Seen, Wanted
from streamwarden.services.state.requested.assignments import AssignmentRequest, Assignments
from streamwarden.services.state.requested.deletions import DeletionRequest, Deletions
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.streams.queries import query_record
from support.streams.stored_journals import facts_with

EVIL = "<script>alert('x')</script>"
SAVEPOINT = "20261125T204502Z"
LOOK = "20261125T204502000000Z-0123abcd"
"""Id of a look, of a deletion, and of an assignment."""
DRILL = """
name: kill_driver
stream: counted
fault: {kind: kill_driver}
"""


def fill(space: Workspace) -> None:
    """`counted`: down, drilled, with an incident; `halted`: stopped by a person; `pair`: two queries."""
    path = add_stream(space.project, "counted", description=f"Counts {EVIL}")
    path.write_text(f'{path.read_text()}\naudit: {{schedule: "30 3 * * *", batches: 50}}\n')
    (space.project / "config" / "drills" / "kill_driver.yaml").write_text(DRILL)
    add_stream(space.project, "halted")
    add_stream(space.project, "pair")
    _save(space)
    now = time.time()
    facts = facts_with("kill_driver", lost=1, samples={"lost": [EVIL]})
    run = DrillRun(
        run_id="run-1",
        drill="kill_driver",
        stream="counted",
        started_at=now,
        status=DrillStatus.COMPLETED,
        deviated=True,
        reason=f"the output is not exactly-once {EVIL}",
        facts={**facts, "fault": {**facts["fault"], "message": EVIL}},
    )
    space.store.journals.save(run)
    space.store.journals.append("run-1", JournalEntry(step=DrillStep.FAULT, at=now, kind="note", message=EVIL))
    for name, error in {"left": None, "right": EVIL}.items():
        ended = {"ended_at": 2.0, "error": error} if error else {}
        space.store.queries.started(query_record("pair", name, driver="pair-1", at=1.0, **ended))
    exit = ExitRecord(kind=ExitKind.KILLED, ended_at=now, signal=9, message=f"out of memory {EVIL}")
    for number in (1, 2):  # the second failure in a row waits
        space.store.drivers.launched(driver(space, number, now - 10 + number, exit))
    space.store.drivers.event(supervised("counted-2", Supervisor.SHELL, now))
    stopped = DesiredState(
        stream="halted", desired=Desired.STOPPED, changed_by="ann", reason=f"the disk moves {EVIL}", changed_at=now
    )
    space.store.stops.set_desired(stopped)
    verdict = Verdict(stream="counted", check="state_size", status=Status.CRITICAL, at=now, value=6e9, unit="bytes")
    space.store.verdicts.save([verdict])
    space.store.incidents.save(
        Incident(
            incident_id="i-1",
            stream="counted",
            check="state_size",
            status=Status.CRITICAL,
            opened_at=now,
            updated_at=now,
            reason=f"too large {EVIL}",
            advice=EVIL,
        )
    )

    space.store.mutes.add(
        Mute(
            mute_id="m-1",
            who="ann",
            reason=f"the disk moves {EVIL}",
            created_at=now,
            starts_at=now,
            until=now + 86400,
            streams=("halted",),
        )
    )


def _save(space: Workspace) -> None:
    """A savepoint of `counted` with a script in what a person wrote, two looks at its state, of which one is answered,
    a deletion and an assignment."""
    savepoints = Savepoints.of(space.stream("counted"))
    place = savepoints.place(SAVEPOINT)
    assert claim_new(place)
    release(place)
    write_manifest(place, manifest(SAVEPOINT, "counted", reason=f"before the change {EVIL}", by=f"ann {EVIL}"))
    looks = Looks(space.data, "counted")
    looks.ask("ann", Wanted(keys=(EVIL,)), time.time())
    entry = StateEntry(partition=0, key=(EVIL,), value=json.dumps({"name": EVIL}))
    shown = Shown(
        fields=("key",),
        rows=1,
        entries=(entry,),
        partitions=(Share(partition=0, rows=1, bytes=30),),
        largest=(Share(key=(EVIL,), rows=1, bytes=30),),
    )
    table = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
    looks.put(
        Seen(id=LOOK, stream="counted", by=f"ann {EVIL}", asked_at=0, wanted=Wanted(), answered_at=0, table=table,
             batches=(7,), shown=shown)
    )  # fmt: skip
    asked: Any = {"id": LOOK, "stream": "counted", "by": f"ann {EVIL}", "asked_at": 0}
    found = Found(fields=("key",), keys=1, parts=(), by_store={}, sample=((EVIL,),))
    deletion = Deletion(keys=Keys(fields=(EVIL,)))
    counted = Counted(operator=table, batch=7, found=found)
    Deletions(space.data, "counted").add(DeletionRequest(**asked, wanted=deletion, planned=counted))
    setting = Setting(assignment=Assignment(keys=(EVIL,), value=(EVIL,)), variable=EVIL)
    change = ValueChange(table=table, batch=7, assigned=Assigned(fields=("key",), before=entry, after=entry, proven=5))
    Assignments(space.data, "counted").add(AssignmentRequest(**asked, wanted=setting, planned=change))


def manifest(savepoint: str, stream: str, *, batch: int = 7, by: str = "ann", reason: str = "") -> Savepoint:
    """The manifest of a savepoint without files."""
    return Savepoint(
        id=savepoint,
        stream=stream,
        query_id="11111111-2222-3333-4444-555555555555",
        batch=batch,
        taken_at=datetime.fromtimestamp(began_at(savepoint), UTC),
        by=by,
        reason=reason,
        streamwarden="0.1.0",
        spark="4.3.0",
        checkpoint="/checkpoints/counted",
        formats={},
        conf={},
        provider="RocksDBStateStoreProvider",
        partitions=1,
        watermark_ms=None,
        operators=(),
        sink=SinkPosition(kind="parquet", place="/output/counted"),
        job=None,
        declaration=None,
        files=(),
    )


def driver(space: Workspace, number: int, at: float, exit: ExitRecord | None) -> DriverRecord:
    return DriverRecord(
        driver_id=f"counted-{number}",
        stream="counted",
        checkpoint=str(space.data / "checkpoint"),
        token=number,
        folder=str(space.data / "drivers" / f"counted-{number}"),
        launched_by="a test",
        launched_at=at,
        exit=exit,
    )
