"""The DAGs with a form for savepoints and state: what their tasks do, whom they name, and what they do not say.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.airflow.dags.state.changes import ChangeApprovalOperator, ChangeOperator, CheckOperator
from streamwarden.airflow.dags.state.dags import OPERATIONS, state_dags
from streamwarden.airflow.dags.state.looking import LookOperator
from streamwarden.airflow.dags.state.operations import Checked, Operation
from streamwarden.airflow.dags.state.verifying import VerifyOperator
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position, offsets
from streamwarden.errors import CheckpointError, LeaseHeld, ProcessError
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.time_travel.answers import Entry, Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight, Refused
from streamwarden.services.analysis.history import history
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state import looking, repartitioning
from streamwarden.services.state.looking import Look
from streamwarden.services.state.looks import Looks, Wanted
from streamwarden.services.state.rewriting import Place
from streamwarden.services.upgrades import switching, upgrading
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.airflow.project import add_stream, living_driver
from support.checkpoints.recorded import Archives

BATCH, NEWEST = 7, 13
NEW_JOB = "spark_jobs/counting_v2.py"
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


FORMS: dict[str, dict[str, Any]] = {
    "restore": {"savepoint": None, "stop_first": False, "try_first": False},
    "rewind": {"batch": BATCH, "time": None, "stop_first": False, "try_first": False},
    "repartition": {"partitions": 4, "stop_first": False},
    "compaction": {"stop_first": False},
    "upgrade": {"job": NEW_JOB, "batches": 2, "accept": False, "watch": "0s", "rollback": True},
}


class Run:
    """A run of the DAG of an operation: what its tasks are told, and what they leave for one another."""

    def __init__(
        self, space: Workspace, name: str = "restore", *, tries: int = 1, get_dag: Any = None, **params: Any
    ) -> None:
        self.space, self.left = space, {}
        self.operation: Operation = next(operation for operation in OPERATIONS if operation.name == name)
        self.began = time.time()
        self.params = {"stream": "counted", "reason": "a wrong job", **FORMS[name], **params}
        self.tries = tries
        self.get_dag = get_dag or (lambda dag_id: SimpleNamespace(is_paused=False))

    @property
    def context(self) -> dict[str, Any]:
        ti = SimpleNamespace(
            try_number=self.tries,
            xcom_pull=lambda task_ids: self.left.get(task_ids),
            get_dag=self.get_dag,
        )
        run = SimpleNamespace(start_date=datetime.fromtimestamp(self.began, UTC), triggering_user_name="ann")
        return {"params": self.params, "ti": ti, "dag_run": run, "task": None}

    def check(self) -> None:
        task = CheckOperator(task_id="check", operation=self.operation, project=str(self.space.project))
        self.left[self.operation.check_name] = task.execute(self.context)

    def approve(self) -> None:
        self.left["approval"] = {"by": "bob (7)", "approved": True}

    def change(self) -> str:
        """`done`, or `waits` for the end of a driver."""
        try:
            self.operator.execute(self.context)
        except TaskDeferred as deferred:
            return "waits" if deferred.method_name == "stopped" else deferred.method_name
        return "done"

    def approved(self) -> str:
        """All of its tasks."""
        self.check()
        self.approve()
        return self.change()

    @property
    def operator(self) -> ChangeOperator:
        return ChangeOperator(task_id="change", operation=self.operation, project=str(self.space.project))

    @property
    def approval(self) -> ChangeApprovalOperator:
        return ChangeApprovalOperator(task_id="approval", operation=self.operation)


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


@pytest.fixture
def rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for Spark's rewriter, which adds a batch to both logs, and for the comparison of two states."""

    def rewrite(spec: StreamSpec, copy: Location, partitions: int) -> None:
        for log in ("offsets", "commits"):
            text = Path(copy.path, log, str(NEWEST)).read_text()
            now = '"spark.sql.shuffle.partitions":"{}"'
            Path(copy.path, log, str(NEWEST + 1)).write_text(text.replace(now.format(2), now.format(partitions)))

        for number in range(2, partitions):
            shutil.copytree(Path(copy.path, "state/0/1"), Path(copy.path, "state/0", str(number)))
        for written in list(Path(copy.path, "state").rglob(f"{NEWEST + 1}.*")):
            shutil.copy(written, written.with_name(written.name.replace(str(NEWEST + 1), str(NEWEST + 2))))

    monkeypatch.setattr(repartitioning, "_rewrite", rewrite)
    monkeypatch.setattr(repartitioning, "_verify", lambda spec, copy, wanted: None)

    def compact(place: Place, path: str, keys: None) -> None:
        shutil.copytree(place.checkpoint.path, path)

    monkeypatch.setattr(Place, "rewrite", compact)


def planned_at(space: Workspace, batch: int) -> str:
    return datetime.fromtimestamp(
        offsets(checkpoint_of(space.stream("counted")), batch).timestamp_ms / 1000, UTC
    ).isoformat()


CHANGES = {"restore": BATCH, "rewind": BATCH, "repartition": NEWEST + 1, "compaction": NEWEST}
"""Operation -> the newest committed batch after it."""
each_change = pytest.mark.parametrize("name", CHANGES)


@each_change
@pytest.mark.usefixtures("rewriting")
def test_each_change_stops_the_stream_and_starts_it_again(
    space: Workspace, saved: str, notes: dict[str, list[str]], name: str
) -> None:
    driver = drive(space)
    with pytest.raises(AirflowFailException, match="counted runs; next: stop it"):
        Run(space, name).check()
    run = Run(space, name, stop_first=True)
    assert run.approved() == "waits"
    assert committed(space) == NEWEST
    end(space, driver)
    run.operator.stopped(run.context, {"driver_id": driver})
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (committed(space), state.desired, state.changed_by) == (CHANGES[name], Desired.RUNNING, BY)
    (event,) = space.store.drivers.events_of("counted", run.operation.event)
    assert (event.detail["by"], event.detail["reason"]) == (BY, "a wrong job")
    assert len(notes["run"]) == 1
    run.tries = 2
    run.change()
    assert len(space.store.drivers.events_of("counted", run.operation.event)) == 1, "it is done once"


@each_change
@pytest.mark.usefixtures("rewriting")
def test_another_run_completes_each_change(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = Run(space, name)
    run.check()
    run.approve()
    with monkeypatch.context() as full:
        full.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(AirflowFailException, match="is not complete"):
            run.change()
    for other in CHANGES.keys() - {name}:
        if {name, other} != {"restore", "rewind"}:  # both go back to the same batch
            with pytest.raises(AirflowFailException, match="was interrupted"):
                Run(space, other).approved()
    assert Run(space, name).approved() == "done"
    assert committed(space) == CHANGES[name]


@each_change
def test_no_change_is_made_that_nobody_approved(space: Workspace, saved: str, name: str) -> None:
    run = Run(space, name)
    run.check()
    with pytest.raises(AirflowFailException, match=f"nobody approved this {name}"):
        run.change()
    assert committed(space) == NEWEST


def test_a_rewind_to_a_time_goes_to_the_batch_that_was_approved(
    space: Workspace, saved: str, notes: dict[str, list[str]]
) -> None:
    run = Run(space, "rewind", batch=None, time=planned_at(space, BATCH))
    run.check()
    asked = Checked(**run.left["check"])
    assert asked.subject == f"Put the stream counted back to batch {BATCH}?"
    assert "6 committed batches after it" in asked.body("a wrong job")
    run.approve()
    run.params["time"] = planned_at(space, BATCH + 2)
    assert run.change() == "done"
    assert (committed(space), restored_by(space)) == (BATCH, [])
    assert f"goes on after batch {BATCH}" in notes["run"][0]


@pytest.mark.parametrize(
    ("name", "params", "refusal"),
    [
        ("rewind", {"batch": None}, "neither a batch nor a time"),
        ("rewind", {"time": "2026-11-26T00:00:00+00:00"}, "both a batch and a time"),
        ("rewind", {"batch": 99}, "99"),
        ("repartition", {"partitions": 2}, "it has 2 partitions already"),
        ("upgrade", {"job": None}, "no upgrade of counted was interrupted"),
        ("upgrade", {"job": "spark_jobs/none.py"}, "there is no file"),
        ("upgrade", {"watch": "soon"}, "a duration such as"),
    ],
)
def test_nobody_is_asked_for_what_would_be_refused(
    space: Workspace, saved: str, name: str, params: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(AirflowFailException, match=refusal):
        Run(space, name, **params).check()


def test_a_batch_that_a_running_stream_executes_is_no_obstacle_to_a_repartition(space: Workspace, saved: str) -> None:
    log = Path(space.stream("counted").checkpoint, "offsets")
    log.joinpath(str(NEWEST + 1)).write_bytes(log.joinpath(str(NEWEST)).read_bytes())
    with pytest.raises(AirflowFailException, match="is planned and not committed"):
        Run(space, "repartition", stop_first=True).check()
    drive(space)
    Run(space, "repartition", stop_first=True).check()


SAME = Preflight(
    stream="counted",
    job=NEW_JOB,
    batch=NEWEST,
    first=12,
    last=NEWEST,
    operators=("stateStoreSave",),
    seen=True,
    output=OutputDifference(old=5, new=5, key=("key",)),
)
OTHER = replace(SAME, output=OutputDifference(old=5, new=5, gone=1, samples={"lost": (f"key={KEY}",)}))
REFUSED = replace(SAME, refused=Refused(batch=12, error_class="E", message="no", next_step="undo it"), output=None)


class Upgraded:
    """A run of `upgrade_stream`. Its preflight finds what it is given, and the stream's DAG launches a driver, which
    ends or lives."""

    def __init__(self, space: Workspace, found: Preflight, monkeypatch: pytest.MonkeyPatch) -> None:
        self.space, self.tried = space, 0
        self.file = Path(space.stream("counted").file)
        self.old = self.file.read_text()
        job = Path(space.stream("counted").job)
        self.job = Path(space.project, NEW_JOB)
        self.job.write_text(job.read_text() + "# another version\n")
        monkeypatch.setattr(upgrading, "preflight", lambda *_, **__: self._found(found))
        monkeypatch.setattr(switching, "POLL", 0.0)

    def _found(self, found: Preflight) -> Preflight:
        self.tried += 1
        return found

    def launch(self, *, fails: bool = False) -> Callable[[str], Any]:
        """What Airflow does when it is asked to supervise the stream."""

        def get_dag(dag_id: str) -> Any:
            count = len(self.space.store.drivers.history("counted", 0)) + 1
            driver = living_driver(self.space, f"counted-{count}").driver_id
            self.space.store.drivers.started(driver, "query", "run", time.time())
            if fails and self.file.read_text() != self.old:
                failed = ExitRecord(kind=ExitKind.FAILED, ended_at=time.time(), error_class="E", message="no")
                self.space.store.drivers.exited(driver, failed)
            return SimpleNamespace(is_paused=False)

        return get_dag


def desired(space: Workspace) -> Any:
    state = space.store.stops.desired("counted")
    return state and (state.desired, state.changed_by)


def test_an_upgrade_is_tried_approved_and_made_by_the_streams_own_dag(
    space: Workspace, saved: str, notes: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    made = Upgraded(space, SAME, monkeypatch)
    run = Run(space, "upgrade", get_dag=made.launch())
    run.check()
    assert "5 rows of the old version and 5 of the new are the same" in capsys.readouterr().out
    assert "no change of the state" in notes["run"][0]
    asked = Checked(**run.left["preflight"])
    assert asked.subject == f"Upgrade the stream counted to {NEW_JOB}?"
    assert "watched for 0s" in asked.body("why")
    assert made.file.read_text() == made.old
    run.approve()
    assert run.change() == "done"
    assert f"job: {NEW_JOB}" in made.file.read_text()
    assert made.tried == 1, "what was tried is what is switched to"
    assert desired(space) == (Desired.RUNNING, BY)
    assert notes["run"][-1].startswith("counted runs counting_v2.py: ")
    run.tries = 2
    assert run.change() == "done"
    assert len(space.store.drivers.history("counted", 0)) == 1, "another try finds the journal at its end"


def test_an_upgrade_that_fails_is_taken_back_and_the_run_is_red(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Upgraded(space, SAME, monkeypatch)
    run = Run(space, "upgrade", get_dag=made.launch(fails=True))
    with pytest.raises(AirflowFailException, match=r"not upgraded: counted runs counting\.py again"):
        run.approved()
    assert made.file.read_text() == made.old
    assert (committed(space), desired(space)) == (NEWEST, (Desired.RUNNING, BY))


@pytest.mark.parametrize(
    ("found", "accept", "refusal"),
    [(OTHER, False, "the output differs"), (REFUSED, True, "batch 12: E: no"), (OTHER, True, None)],
)
def test_a_person_is_asked_only_if_the_preflight_lets_it_pass(
    space: Workspace, saved: str, notes: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], found: Preflight, accept: bool, refusal: str | None,
) -> None:  # fmt: skip
    """Neither the log nor the request has a row of the output."""
    Upgraded(space, found, monkeypatch)
    run = Run(space, "upgrade", accept=accept)
    if refusal is None:
        run.check()
    else:
        with pytest.raises(AirflowFailException, match=refusal):
            run.check()
    assert notes["run"], "the report is there in any case"
    assert KEY not in f"{capsys.readouterr().out}{notes}{run.left}"
    assert desired(space) is None


def test_another_version_than_the_one_that_was_approved_is_refused(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Upgraded(space, SAME, monkeypatch)
    run = Run(space, "upgrade", get_dag=made.launch())
    run.check()
    run.approve()
    made.job.write_text(made.job.read_text() + "# and another one\n")
    with pytest.raises(AirflowFailException, match="was changed after it was tried"):
        run.change()
    assert (made.file.read_text(), desired(space)) == (made.old, None)


def test_an_upgrade_that_was_interrupted_is_completed_by_another_run(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Upgraded(space, SAME, monkeypatch)
    run = Run(space, "upgrade", get_dag=lambda dag_id: (_ for _ in ()).throw(ProcessError("killed")))
    with monkeypatch.context() as killed:
        killed.setattr(switching.Switch, "_swap", lambda self: (_ for _ in ()).throw(ProcessError("killed")))
        with pytest.raises(AirflowFailException, match="killed"):
            run.approved()
    assert (made.file.read_text(), desired(space)) == (made.old, (Desired.STOPPED, BY)), "its journal decides"
    with pytest.raises(AirflowFailException, match="was interrupted"):
        Run(space, "upgrade").check()
    again = Run(space, "upgrade", job=None, get_dag=made.launch())
    assert again.approved() == "done"
    assert f"job: {NEW_JOB}" in made.file.read_text()
    assert made.tried == 1


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
    space: Workspace, asked_of_spark: list[Any], capsys: pytest.CaptureFixture[str], notes: dict[str, list[str]]
) -> None:
    """Airflow is given an id, and is told how many rows there are."""
    looks = Looks(space.data, "counted")
    asked = looks.ask("ann", Wanted(keys=(KEY,)), time.time())
    look(space, look=asked.id)
    seen = looks.get(asked.id)
    assert seen is not None
    assert seen.shown == SHOWN
    assert asked_of_spark[0][0].keys == (KEY,)
    assert notes["run"] == ["1 of 1 rows after batch 7"]
    assert KEY not in capsys.readouterr().out


def test_the_form_asks_too(space: Workspace, asked_of_spark: list[Any]) -> None:
    look(space, key=f"origin=EWR\n carrier={KEY} ", batch=7)
    (seen,) = Looks(space.data, "counted").newest()
    assert (seen.by, seen.shown) == ("ann (Airflow)", SHOWN)
    assert asked_of_spark == [(looking.Selection(keys=("origin=EWR", f"carrier={KEY}")), {"batch": 7, "rows": 50})]


def test_no_answer_is_told_without_the_key(
    space: Workspace, asked_of_spark: list[Any], capsys: pytest.CaptureFixture[str], notes: dict[str, list[str]]
) -> None:
    with pytest.raises(AirflowSkipException, match="the stream's page says why"):
        look(space, key=KEY, batch=99)
    assert KEY not in capsys.readouterr().out + "".join(notes["run"])
    with pytest.raises(AirflowFailException, match="its time is over"):
        look(space, look="20260101T000000000000Z-01234567")
    with pytest.raises(AirflowFailException, match="a history shows one key"):
        look(space, history=True)


def test_the_dags_have_their_forms(space: Workspace) -> None:
    dags = state_dags(str(space.project / "dags/state.py"))
    changes = {"compact_state", "repartition_stream", "restore_stream", "rewind_stream", "upgrade_stream"}
    assert set(dags) == {"look_at_state", "verify_savepoint", *changes}
    for dag in dags.values():
        stream = dag.params.get_param("stream")
        assert stream.schema["enum"] == ["counted"]
        assert not stream.has_value, "a stream is chosen, never the first one by accident"
    for operation in OPERATIONS:
        dag = dags[operation.dag_id]
        assert [task.task_id for task in dag.topological_sort()] == [operation.check_name, "approval", operation.name]
        assert isinstance(dag.get_task("approval"), ApprovalOperator)
        assert dag.get_task(operation.name).retries > 3, "a store that is down for a minute is waited for"
        form = {name: value for name, value in dag.params.dump().items() if name not in ("stream", "partitions")}
        assert form.keys() | {"partitions"} >= FORMS[operation.name].keys()
        assert ("stop_first" in form) is operation.stops_first
    assert ChangeOperator.template_fields == ("stream",)
