"""verify_savepoint, restore_stream and look_at_state: what their tasks do, whom they name, and what they do not say.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.airflow.dags.state import restoring
from streamwarden.airflow.dags.state.dags import state_dags
from streamwarden.airflow.dags.state.looking import LookOperator
from streamwarden.airflow.dags.state.restoring import CheckOperator, RestoreApprovalOperator, RestoreOperator
from streamwarden.airflow.dags.state.verifying import VerifyOperator
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError, LeaseHeld
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.time_travel.answers import Entry, Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.analysis.history import history
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look
from streamwarden.services.state.looks import Looks, Wanted
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, living_driver
from support.checkpoints.recorded import Archives

BATCH, NEWEST = 7, 13
KEY = "4711"
BY = "ann (Airflow), approved by bob (7)"


@pytest.fixture
def saved(space: Workspace, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint at batch 7 of `counted`, whose query has committed batch 13."""
    path = add_stream(space.project, "counted")
    text = (
        path.read_text().replace("output/counted", "origin/output").replace("checkpoints/counted", "origin/checkpoint")
    )
    path.write_text(text)
    Archives(tmp_path_factory.mktemp("archives")).unpack("spark-4.3.0-changelog", space.data / "origin")
    return create(space.stream("counted"), BATCH, Author(by="cleo", reason="before the *change*")).id


class Run:
    """A run of `restore_stream`: what its tasks are told, and what they leave for one another."""

    def __init__(self, space: Workspace, *, tries: int = 1, **params: Any) -> None:
        self.space, self.left = space, {}
        self.began = time.time()
        self.params = {
            "stream": "counted",
            "savepoint": None,
            "reason": "a wrong job",
            "stop_first": False,
            "try_first": False,
        }
        self.params |= params
        self.tries = tries

    @property
    def context(self) -> dict[str, Any]:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_pull=lambda task_ids: self.left.get(task_ids),
            get_dag=lambda dag_id: SimpleNamespace(is_paused=False),
        )
        run = SimpleNamespace(start_date=datetime.fromtimestamp(self.began, UTC), triggering_user_name="ann")
        return {"params": self.params, "ti": ti, "dag_run": run, "task": None}

    def check(self) -> None:
        self.left["check"] = CheckOperator(task_id="check", project=str(self.space.project)).execute(self.context)

    def approve(self) -> None:
        self.left["approval"] = {"by": "bob (7)", "approved": True}

    def restore(self) -> str:
        """`done`, or `waits` for the end of a driver."""
        try:
            self.operator.execute(self.context)
        except TaskDeferred as deferred:
            return "waits" if deferred.method_name == "stopped" else deferred.method_name
        return "done"

    @property
    def operator(self) -> RestoreOperator:
        return RestoreOperator(task_id="restore", project=str(self.space.project))


def committed(space: Workspace) -> int | None:
    return log_position(checkpoint_of(space.stream("counted"))).committed


def drive(space: Workspace) -> str:
    """A living driver, which has no lease."""
    return living_driver(space, "counted-1", time.time() - 60).driver_id


def end(space: Workspace, driver_id: str) -> None:
    space.store.drivers.exited(driver_id, ExitRecord(kind=ExitKind.STOPPED, ended_at=time.time()))


def restored_by(space: Workspace) -> list[str]:
    return [event.who for event in history(space.store, "counted", 0) if event.kind is EventKind.RESTORED]


def test_a_person_approves_and_the_stream_is_put_back_in_both_names(
    space: Workspace, saved: str, notes: dict[str, list[str]]
) -> None:
    end(space, drive(space))
    run = Run(space)
    run.check()
    run.approve()
    assert run.restore() == "done"
    assert (committed(space), restored_by(space)) == (BATCH, [BY])
    assert notes["run"] == [f"counted is put back to savepoint {saved} and goes on after batch {BATCH}"]
    assert space.store.stops.desired("counted") is None, "a stream that this run did not stop is not started"


def test_the_request_says_what_is_taken_back(space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: None)  # what waits is Airflow's own
    run = Run(space, reason="password=hunter2-hunter2")
    run.check()
    asked = RestoreApprovalOperator(task_id="approval")
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
    asked = RestoreApprovalOperator(task_id="approval")
    if option is None:
        with pytest.raises(AirflowSkipException, match="nobody approved"):
            asked.execute_complete(run.context, event)
    else:
        run.left["approval"] = asked.execute_complete(run.context, event)
    if option == "Approve":
        assert run.restore() == "done"
    else:
        with pytest.raises(AirflowFailException, match="nobody approved this restore"):
            run.restore()
    assert committed(space) == (BATCH if option == "Approve" else NEWEST)


def test_a_task_that_was_marked_as_successful_approves_nothing(space: Workspace, saved: str) -> None:
    run = Run(space)
    run.check()
    with pytest.raises(AirflowFailException, match="nobody approved this restore"):
        run.restore()
    assert committed(space) == NEWEST


def test_nobody_is_asked_for_a_restore_that_would_be_refused(space: Workspace, saved: str) -> None:
    drive(space)
    with pytest.raises(AirflowFailException, match="counted runs; next: stop it"):
        Run(space).check()
    with pytest.raises(AirflowFailException, match="has no savepoint"):
        Run(space, savepoint="20200101T000000Z").check()
    Path(Savepoints.of(space.stream("counted")).place(saved).path, "checkpoint/metadata").unlink()
    with pytest.raises(AirflowFailException, match="is not as it was saved"):
        Run(space, stop_first=True).check()


def test_a_running_stream_is_stopped_first_and_started_again(space: Workspace, saved: str) -> None:
    driver = drive(space)
    run = Run(space, stop_first=True)
    run.check()
    run.approve()
    assert run.restore() == "waits"
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
    run.check()
    run.approve()
    run.restore()
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
    run.check()
    run.approve()
    run.restore()
    end(space, driver)
    with monkeypatch.context() as full:
        full.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(AirflowFailException, match="the restore is not complete"):
            run.operator.stopped(run.context)
    state = space.store.stops.desired("counted")
    assert state is not None
    assert state.desired is Desired.STOPPED
    again = Run(space, stop_first=True)
    again.check()
    again.approve()
    assert again.restore() == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired) == (BATCH, Desired.RUNNING)


def test_what_a_person_stopped_stays_stopped(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    space.fleet.request_stop("counted", requested_by="dora", reason="a holiday")
    run = Run(space, stop_first=True)
    run.check()
    run.approve()
    assert run.restore() == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired, state.changed_by) == (BATCH, Desired.STOPPED, "dora")


def test_a_restore_that_an_earlier_try_has_done_is_not_repeated(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    run = Run(space)
    run.check()
    run.approve()
    run.restore()
    run.tries = 2
    run.restore()
    assert len(restored_by(space)) == 1
    another = Run(space, tries=2)
    another.check()
    another.approve()
    another.restore()
    assert len(restored_by(space)) == 2, "another run is another restore"


def test_a_lease_that_is_returned_in_a_moment_is_waited_for(space: Workspace, saved: str) -> None:
    end(space, drive(space))
    run = Run(space)
    run.check()
    run.approve()
    spec = space.stream("counted")
    space.store.leases.acquire(*spec.checkpoints, stream="counted", holder="x", ttl=60, now=time.time())
    with pytest.raises(LeaseHeld):
        run.restore()
    assert state_dags(str(space.project / "dags/state.py"))["restore_stream"].get_task("restore").retries > 3


def test_a_savepoint_is_verified(space: Workspace, saved: str, notes: dict[str, list[str]]) -> None:
    given = {"params": {"stream": "counted", "savepoint": saved}, "ti": None}
    VerifyOperator(task_id="verify", project=str(space.project)).execute(given)
    assert notes["run"][0].startswith(f"{saved}: all is as it was saved (")
    Path(Savepoints.of(space.stream("counted")).place(saved).path, "checkpoint/metadata").unlink()
    with pytest.raises(AirflowFailException, match="1 file differ"):
        VerifyOperator(task_id="verify", project=str(space.project)).execute(given)


SHOWN = Shown(
    fields=("key",),
    rows=1,
    entries=(Entry(partition=0, key=(KEY,), value='{"n":1}'),),
    partitions=(Share(partition=0, rows=1, bytes=8),),
)


@pytest.fixture
def asked_of_spark(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def show(spec: Any, chosen: Any, **more: Any) -> Look[Shown]:
        asked.append((chosen, more))
        if more["batch"] == 99:
            raise CheckpointError(f"no row with {KEY}", expected="one", where=spec.name, next_step="another")
        table = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
        return Look(stream=spec.name, table=table, batches=(7,), committed_at=1.0, kept=(7,), answer=SHOWN)

    monkeypatch.setattr(looking, "show", show)
    return asked


FORM = {"stream": "counted", "look": None, "operator": None, "variable": None, "batch": None, "since": None,
        "key": None, "history": False}  # fmt: skip


def look(space: Workspace, **params: Any) -> None:
    run = SimpleNamespace(triggering_user_name="ann")
    LookOperator(task_id="look", project=str(space.project)).execute(
        {"params": FORM | params, "dag_run": run, "ti": None}
    )


def test_a_question_of_the_page_is_answered_for_the_page_alone(
    space: Workspace, asked_of_spark: list[Any], caplog: pytest.LogCaptureFixture, notes: dict[str, list[str]]
) -> None:
    """Airflow is given an id, and is told how many rows there are."""
    looks = Looks(space.data, "counted")
    asked = looks.ask("ann", Wanted(keys=(KEY,)), time.time())
    with caplog.at_level(logging.DEBUG):
        look(space, look=asked.id)
    seen = looks.get(asked.id)
    assert seen is not None
    assert seen.shown == SHOWN
    assert asked_of_spark[0][0].keys == (KEY,)
    assert notes["run"] == ["1 of 1 rows after batch 7"]
    assert KEY not in caplog.text


def test_the_form_asks_too(space: Workspace, asked_of_spark: list[Any]) -> None:
    look(space, key=f"origin=EWR\n carrier={KEY} ", batch=7)
    (seen,) = Looks(space.data, "counted").newest()
    assert (seen.by, seen.shown) == ("ann (Airflow)", SHOWN)
    assert asked_of_spark == [(looking.Selection(keys=("origin=EWR", f"carrier={KEY}")), {"batch": 7, "rows": 50})]


def test_no_answer_is_told_without_the_key(
    space: Workspace, asked_of_spark: list[Any], caplog: pytest.LogCaptureFixture, notes: dict[str, list[str]]
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(AirflowSkipException, match="the stream's page says why"):
        look(space, key=KEY, batch=99)
    assert KEY not in caplog.text + "".join(notes["run"])
    with pytest.raises(AirflowFailException, match="its time is over"):
        look(space, look="20260101T000000000000Z-01234567")
    with pytest.raises(AirflowFailException, match="a history shows one key"):
        look(space, history=True)


def test_the_dags_have_their_forms(space: Workspace) -> None:
    dags = state_dags(str(space.project / "dags/state.py"))
    assert set(dags) == {"look_at_state", "restore_stream", "verify_savepoint"}
    for dag in dags.values():
        stream = dag.params.get_param("stream")
        assert stream.schema["enum"] == ["counted"]
        assert not stream.has_value, "a stream is chosen, never the first one by accident"
    tasks = [task.task_id for task in dags["restore_stream"].topological_sort()]
    assert tasks == ["check", "approval", "restore"]
    assert isinstance(dags["restore_stream"].get_task("approval"), ApprovalOperator)
    assert restoring.RestoreOperator.template_fields == ("stream",)
