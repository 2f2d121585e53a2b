"""`restore_stream`: what its tasks do, whom they name, and when the stream is started again.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streamwarden.errors import LeaseHeld
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import BATCH, BY, NEWEST, Run, committed, drive, end, restored_by


def test_a_person_approves_and_the_stream_is_put_back_in_both_names(
    space: Workspace, saved: str, notes: dict[str, list[str]]
) -> None:
    end(space, drive(space))
    run = Run(space)
    assert run.approved() == "done"
    assert (committed(space), restored_by(space)) == (BATCH, [BY])
    assert notes["run"] == [f"counted is put back to savepoint {saved} and goes on after batch {BATCH}"]
    assert space.store.stops.desired("counted") is None, "a stream that this run did not stop is not started"


def test_the_request_says_what_is_taken_back(space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: None)  # what waits is Airflow's own
    run = Run(space, reason="password=hunter2-hunter2")
    run.check()
    asked = run.approval
    asked.execute(run.context)
    assert asked.subject == f"Put the stream counted back to the savepoint {saved}?"
    for said in ("batch 7", "by cleo", "6 committed batches", "up to batch 13", "It is stopped", "origin/output"):
        assert said in str(asked.body)
    assert "hunter2" not in str(asked.body)


@pytest.mark.parametrize("option", ["Approve", "Reject", None])
def test_only_an_approval_is_one(space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, option: Any) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda self, context, event: event)
    run = Run(space)
    run.check()
    event = {"error": "time is up", "error_type": "timeout"}
    if option is not None:
        user = {"id": "7", "name": "bob"}
        event = {"chosen_options": [option], "responded_at": datetime.now(UTC), "responded_by_user": user}
    asked = run.approval
    if option is None:
        with pytest.raises(AirflowSkipException, match="nobody approved"):
            asked.execute_complete(run.context, event)
    else:
        run.left["approval"] = asked.execute_complete(run.context, event)
    if option == "Approve":
        assert run.change() == "done"
    else:
        with pytest.raises(AirflowFailException, match="nobody approved this restore"):
            run.change()
    assert committed(space) == (BATCH if option == "Approve" else NEWEST)


def test_a_task_that_was_marked_as_successful_approves_nothing(space: Workspace, saved: str) -> None:
    run = Run(space)
    run.check()
    with pytest.raises(AirflowFailException, match="nobody approved this restore"):
        run.change()
    assert committed(space) == NEWEST


def test_nobody_is_asked_for_a_restore_that_would_be_refused(space: Workspace, saved: str) -> None:
    drive(space)
    with pytest.raises(AirflowFailException, match=r"counted runs; .* next: stop it"):
        Run(space).check()
    with pytest.raises(AirflowFailException, match="has no savepoint"):
        Run(space, savepoint="20200101T000000Z").check()
    Path(Savepoints.of(space.stream("counted")).place(saved).path, "checkpoint/metadata").unlink()
    with pytest.raises(AirflowFailException, match="is not as it was saved"):
        Run(space, stop_first=True).check()


def test_a_running_stream_is_stopped_first_and_started_again(space: Workspace, saved: str) -> None:
    driver = drive(space)
    run = Run(space, stop_first=True)
    assert run.approved() == "waits"
    asked, state = space.store.stops.pending(driver), space.store.stops.desired("counted")
    assert asked is not None
    assert state is not None
    assert (asked.requested_by, asked.restart, state.desired) == (BY, False, Desired.STOPPED)
    assert committed(space) == NEWEST
    end(space, driver)
    run.operator.stopped(run.context, {"driver_id": driver})
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired, state.changed_by) == (BATCH, Desired.RUNNING, BY)


def test_a_stream_whose_restore_is_refused_is_started_again(space: Workspace, saved: str) -> None:
    driver = drive(space)
    run = Run(space, stop_first=True)
    run.approved()
    end(space, driver)
    Path(Savepoints.of(space.stream("counted")).place(saved).path, "checkpoint/metadata").unlink()
    with pytest.raises(AirflowFailException, match="is not as it was saved"):
        run.operator.stopped(run.context)
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired) == (NEWEST, Desired.RUNNING)


def test_a_stream_whose_restore_was_interrupted_is_not_started(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is complete every launch is refused: another run of the DAG completes it."""
    driver = drive(space)
    run = Run(space, stop_first=True)
    run.approved()
    end(space, driver)
    with monkeypatch.context() as full:
        full.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(AirflowFailException, match="the restore is not complete"):
            run.operator.stopped(run.context)
    state = space.store.stops.desired("counted")
    assert state is not None
    assert state.desired is Desired.STOPPED
    again = Run(space, stop_first=True)
    assert again.approved() == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired) == (BATCH, Desired.RUNNING)


def test_what_a_person_stopped_stays_stopped(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    space.fleet.request_stop("counted", requested_by="dora", reason="a holiday")
    run = Run(space, stop_first=True)
    assert run.approved() == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired, state.changed_by) == (BATCH, Desired.STOPPED, "dora")


def test_a_restore_that_an_earlier_try_has_done_is_not_repeated(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    run = Run(space)
    run.approved()
    run.tries = 2
    run.change()
    assert len(restored_by(space)) == 1
    another = Run(space, tries=2)
    another.approved()
    assert len(restored_by(space)) == 2, "another run is another restore"


def test_a_lease_that_is_returned_in_a_moment_is_waited_for(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    run = Run(space)
    run.check()
    run.approve()
    spec = space.stream("counted")
    space.store.leases.acquire(*spec.checkpoints, stream="counted", holder="x", ttl=60, now=time.time())
    with pytest.raises(LeaseHeld):
        run.change()
