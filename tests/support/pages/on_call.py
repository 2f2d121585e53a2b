"""The fleet that a person on call finds at night: one stream died, another loses rows, a third is fine.

1. `departures` runs and has a state, a backlog and a setting that costs too much. Its newest drill passed, and one
   runs.
2. `rotations` ended with an error of its job, again and again, and is left down: an incident is CRITICAL.
3. `weather` runs, and its newest drill lost a row: an incident names the run.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from streamwarden.adapters.processes import identity
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import GiveUp
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.lifecycle.supervision.supervisor import Down, gave_up
from streamwarden.services.workspace import Workspace
from support.airflow.harness import REPOSITORY
from support.airflow.project import add_stream
from support.streams.reports import report
from support.streams.stored_journals import facts_with, stored

DEPARTURES, ROTATIONS, WEATHER = "flight_departures", "aircraft_rotations", "flight_weather"
STREAMS = (DEPARTURES, ROTATIONS, WEATHER)
ERROR, PLACE = "KeyError: column 'gate' is missing", "aircraft_rotations.py:46"
LOST = "(UA, 2013-04-02 10:00): 17"
"""The row that the drill of `weather` lost, as its report shows it."""
PASSED, DEVIATED = "departures-passed", "weather-deviated"
"""The newest run of `departures` that ended, and the one of `weather` that lost it."""
SETTING = "trigger.processing_time: 2 seconds"
"""What `departures` is advised to change: its batches take longer than its trigger of a second."""
PARTITIONS = "spark.sql.shuffle.partitions"
_TRACE = f"""\
26/11/27 01:00:00 ERROR MicroBatchExecution: Query terminated with error
Traceback (most recent call last):
  File "/srv/jobs/{PLACE.partition(":")[0]}", line 46, in build
    gates = flights["gate"]
{ERROR}
"""


def fill(space: Workspace) -> None:
    """The project and the store."""
    now = time.time()
    for name in STREAMS:
        add_stream(space.project, name, budget=1)
    for file in sorted((REPOSITORY / "config" / "drills").glob("*.yaml")):
        if f"stream: {DEPARTURES}\n" in file.read_text():
            shutil.copy(file, space.project / "config" / "drills")
    for number, name in enumerate((DEPARTURES, WEATHER)):
        runs(space, name, now - 9000 * (number + 1), now)
    _dies(space, now)
    _drilled(space, now)
    _open(space, now)


def runs(space: Workspace, stream: str, since: float, now: float) -> None:
    """A living driver of the stream, launched at `since`, with a batch every two seconds up to now."""
    record = replace(_driver(space, stream, 1, since), process=identity(os.getpid()))
    space.store.drivers.launched(record)
    space.store.drivers.started(record.driver_id, f"query-{stream}", "run-1", since + 20)
    reports = [report(number, at=now - 2 * (200 - number), rows=500, id=f"query-{stream}") for number in range(200)]
    space.store.batches.upsert_many(stream, reports)
    measured = (("state_size", 1.234e8, "bytes"), ("backlog", 3.2, "seconds"), ("memory_usage", 6.1e8, "bytes"))
    space.store.verdicts.save(
        [
            Verdict(stream=stream, check=check, status=Status.OK, at=now - 30, value=value, unit=unit, reason="fits")
            for check, value, unit in measured
        ]
    )


def _dies(space: Workspace, now: float) -> None:
    """Two failures in a row: more than the budget allows."""
    message = f"/srv/jobs/{PLACE}: {ERROR}"
    for number, ended in ((1, now - 900), (2, now - 300)):
        exit = ExitRecord(kind=ExitKind.FAILED, ended_at=ended, error_class="KeyError", message=message, exit_code=1)
        record = replace(_driver(space, ROTATIONS, number, ended - 120), exit=exit)
        folder = Path(record.folder)
        folder.mkdir(parents=True)
        (folder / "driver.log").write_text(_TRACE)
        space.store.drivers.launched(record)
        space.store.drivers.event(supervised(record.driver_id, Supervisor.SHELL, ended - 110))
    verdict = GiveUp(
        reason="2 failures within an hour",
        next_step=f"fix the job, then run `streamwarden start {ROTATIONS}`",
        exhausted=True,
    )
    space.store.drivers.event(gave_up(Down(driver_id=f"{ROTATIONS}-2", verdict=verdict, at=now - 290)))


def _drilled(space: Workspace, now: float) -> None:
    passed, entries = stored("kill_driver", run_id=PASSED, drill="kill_driver", stream=DEPARTURES)
    moved = replace(passed, started_at=now - 8000, ended_at=now - 7800)
    begun, _ = stored("kill_driver_begun", run_id="departures-running", drill="kill_driver", stream=DEPARTURES)
    facts = facts_with("kill_driver", lost=1, samples={"lost": [f"{LOST}; due from a.json line 3"]})
    deviated = replace(
        passed, run_id=DEVIATED, stream=WEATHER, drill="kill_weather", started_at=now - 3000, ended_at=now - 2800,
        deviated=True, reason="1 row was lost", facts=facts,
    )  # fmt: skip
    for run in (moved, deviated, replace(begun, started_at=now - 60)):
        _save(space, run)
    for entry in entries:
        space.store.journals.append(moved.run_id, entry)
    (space.project / "config" / "drills" / "kill_weather.yaml").write_text(
        f'name: kill_weather\nstream: {WEATHER}\nfault: {{kind: kill_driver}}\nschedule: "@daily"\n'
        "description: Kills the driver of `flight_weather`, whose `foreachBatch` appends.\n"
    )


def _save(space: Workspace, run: DrillRun) -> None:
    assert run.status in (DrillStatus.COMPLETED, DrillStatus.RUNNING)
    space.store.journals.save(run)


def _open(space: Workspace, now: float) -> None:
    told = (
        f"read `streamwarden drill show {DEVIATED}` and fix the cause, then run `streamwarden drill run kill_weather`"
    )
    for each in (
        incident("down", ROTATIONS, "driver_down", Status.CRITICAL, now - 300, f"the driver failed: {ERROR}"),
        incident(
            "drill", WEATHER, "drill_kill_weather", Status.CRITICAL, now - 2700,
            "the drill kill_weather deviated: 1 row was lost", advice=told, evidence={"run": DEVIATED},
        ),
        incident("late", DEPARTURES, "backlog", Status.WARNING, now - 90000, "3.2 s wait, more than 3 s"),
        incident(
            "advised", DEPARTURES, "advice_partitions", Status.ADVICE, now - 60,
            f"partitions: `{PARTITIONS}` costs half of a batch", advice=f"set `{PARTITIONS}: 4`",
            evidence={"cures": "checkpoint_duration"},
        ),
    ):  # fmt: skip
        space.store.incidents.save(each)


def incident(name: str, stream: str, check: str, status: Status, at: float, reason: str, **more: object) -> Incident:
    """One that was judged 34 seconds ago."""
    return Incident(
        incident_id=name, stream=stream, check=check, status=status, opened_at=at, updated_at=time.time() - 34,
        reason=reason, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def equal_incidents(streams: Sequence[str]) -> list[Incident]:
    """One of each stream, with the same check, status and reason."""
    at = time.time() - 600
    return [incident(f"same-{name}", name, "source_lag", Status.WARNING, at, "the broker is slow") for name in streams]


def _driver(space: Workspace, stream: str, number: int, at: float) -> DriverRecord:
    return DriverRecord(
        driver_id=f"{stream}-{number}",
        stream=stream,
        checkpoint=str(space.data / "checkpoints" / stream),
        token=number,
        folder=str(space.data / "drivers" / f"{stream}-{number}"),
        launched_by="airflow",
        launched_at=at,
    )
