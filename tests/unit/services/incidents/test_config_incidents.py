"""What an evaluation round does about streams whose files were removed or broken."""

from __future__ import annotations

import os
import time
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.health.evaluations import Evaluator
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.monitoring.rounds import run_round
from streamwarden.services.workspace import Workspace
from support.streams.launches import launch
from support.streams.queries import query_record


def file(space: Workspace) -> Path:
    return space.project / "config/streams/counted.yaml"


def down(space: Workspace) -> None:
    open_incident(space.store.incidents, "counted", "out of budget", "read the log", time.time())


def test_a_stream_that_is_removed_takes_its_incidents_with_it(space: Workspace) -> None:
    """No check judges it any more, so nothing else would end them."""
    down(space)
    file(space).unlink()
    run_round(space, Evaluator.DAG)
    assert list(space.store.incidents.open()) == []
    (incident,) = space.store.incidents.recent()
    assert incident.reason == "the stream is no longer in config/streams"


def test_an_incident_of_one_of_several_queries_is_not_that_of_a_stream_without_a_file(space: Workspace) -> None:
    """It goes on while the stream has this query, and ends with it."""
    record = driver(space)
    failed = query_record(
        "counted", "left", driver=record.driver_id, at=time.time(), ended_at=time.time(), error="ValueError: poison"
    )
    space.store.queries.started(failed)
    entries = {each.title: each.status for each in run_round(space, Evaluator.DAG).entries}
    assert entries["counted/left"] is Status.CRITICAL
    run_round(space, Evaluator.DAG)
    assert [each.check for each in space.store.incidents.open("counted/left")] == ["query_ended"]
    space.store.queries.forget("counted", "left")
    run_round(space, Evaluator.DAG)
    assert list(space.store.incidents.open("counted/left")) == []


def test_the_incidents_of_a_stream_that_is_there_go_on(space: Workspace) -> None:
    """Its file is right, then broken, then named as none is."""
    down(space)
    run_round(space, Evaluator.DAG)
    right = file(space).read_text()
    file(space).write_text("name: counted")
    run_round(space, Evaluator.DAG)
    file(space).write_text(right)
    file(space).rename(file(space).with_suffix(".yml"))
    run_round(space, Evaluator.DAG)
    assert [each.check for each in space.store.incidents.open("counted")] == ["supervision"]


def driver(space: Workspace) -> DriverRecord:
    """A driver of the stream that lives: this very process stands for it."""
    record = DriverRecord(
        driver_id="counted-1",
        stream="counted",
        checkpoint=space.stream("counted").checkpoint,
        token=1,
        folder=str(space.data / "nowhere"),
        launched_by="test",
        launched_at=time.time(),
        process=processes.identity(os.getpid()),
    )
    space.store.drivers.launched(record)
    return record


def test_a_stream_that_runs_and_whose_file_breaks_has_an_incident_until_it_is_corrected(space: Workspace) -> None:
    """Its checks do not run: the incident says so and why, also after the driver ended, once."""
    running = driver(space)
    right = file(space).read_text()
    file(space).write_text("name: counted")
    (entry,) = run_round(space, Evaluator.DAG).entries
    assert (entry.title, entry.status) == ("counted", Status.UNKNOWN)
    (incident,) = space.store.incidents.open("counted")
    assert (incident.check, incident.status) == ("configuration", Status.WARNING)
    assert "no health check evaluates it" in incident.reason
    assert "config/streams/counted.yaml" in incident.reason
    assert "streamwarden validate" in incident.advice
    space.store.drivers.exited(running.driver_id, ExitRecord(kind=ExitKind.KILLED, ended_at=time.time()))
    run_round(space, Evaluator.DAG)
    assert [each.incident_id for each in space.store.incidents.open("counted")] == [incident.incident_id]
    file(space).write_text(right)
    run_round(space, Evaluator.DAG)
    assert [each for each in space.store.incidents.open("counted") if each.check == "configuration"] == []


def test_a_stream_that_runs_without_a_file_keeps_its_incidents_and_gets_one(space: Workspace) -> None:
    """Until its driver has ended; it is judged by the settings that the driver was started with."""
    running = launch(space.store, space.data, space.stream("counted"))
    open_incident(space.store.incidents, "counted/left", "out of budget", "read the log", time.time())
    file(space).rename(file(space).with_name("renamed.yaml"))
    judged = run_round(space, Evaluator.DAG).evaluation
    assert "counted" in judged.streams
    open_now = {incident.check: incident for incident in space.store.incidents.open("counted")}
    assert "without a declaration" in open_now["configuration"].reason
    assert "streamwarden stop counted" in open_now["configuration"].advice
    space.store.drivers.exited(running.driver_id, ExitRecord(kind=ExitKind.STOPPED, ended_at=time.time()))
    run_round(space, Evaluator.DAG)
    assert list(space.store.incidents.open()) == []


def test_a_broken_file_of_a_stream_that_does_not_run_opens_no_incident(space: Workspace) -> None:
    """A person is writing it."""
    file(space).write_text("name: counted")
    run_round(space, Evaluator.DAG)
    assert list(space.store.incidents.open()) == []
