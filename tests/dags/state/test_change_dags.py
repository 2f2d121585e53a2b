"""What all DAGs have in common that change a stream, and what each refuses.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.airflow.dags.state.changes import ChangeOperator
from streamwarden.airflow.dags.state.dags import OPERATIONS, state_dags
from streamwarden.airflow.dags.state.operations import Checked
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.surgery.assignment import Assign, Assigned
from streamwarden.lifecycle.surgery.rewriting import Found, Keys, Part, Rewritten
from streamwarden.lifecycle.time_travel.answers import Entry
from streamwarden.services.state import assigning, repartitioning
from streamwarden.services.state.rewriting import Place
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.airflow.change_runs import BATCH, BY, FORMS, KEY, NEWEST, PRIVATE, Run, committed, drive, end, restored_by

FOUND = Found(
    fields=("key",),
    keys=1,
    parts=(Part(store="default", family="default", keys=1, rows=3),),
    by_store={"default": 1},
    sample=((KEY,),),
)
ASSIGNED = Assigned(fields=("key",), before=None, after=Entry(partition=0, key=(KEY,), value='{"n":9}'), proven=5)


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

    def write(place: Place, path: str, keys: Keys | None) -> Found:
        shutil.copytree(place.checkpoint.path, path)
        return FOUND

    monkeypatch.setattr(Place, "rewrite", write)
    monkeypatch.setattr(Place, "ask", lambda place, folder, keys, read: Rewritten(found=FOUND))

    def assign(place: Place, folder: Path, request: Assign) -> Assigned:
        if request.into is not None:
            state = Path(of_hadoop(request.into), "state")
            shutil.rmtree(state)  # its schemas are hard links
            shutil.copytree(Path(place.checkpoint.path, "state"), state)
        return ASSIGNED

    monkeypatch.setattr(assigning, "_ask", assign)
    monkeypatch.setattr(Place, "require_exact", lambda place, copy, judge: None)


def planned_at(space: Workspace, batch: int) -> str:
    return datetime.fromtimestamp(
        offsets(checkpoint_of(space.stream("counted")), batch).timestamp_ms / 1000, UTC
    ).isoformat()


CHANGES = {"restore": BATCH, "rewind": BATCH, "repartition": NEWEST + 1} | dict.fromkeys(
    ("compaction", *PRIVATE), NEWEST
)
"""Operation -> the newest committed batch after it."""
each_change = pytest.mark.parametrize("name", CHANGES)


@each_change
@pytest.mark.usefixtures("rewriting")
def test_each_change_stops_the_stream_and_starts_it_again(
    space: Workspace, saved: str, notes: dict[str, list[str]], name: str
) -> None:
    driver = drive(space)
    with pytest.raises(AirflowFailException, match=r"counted runs; .* next: stop it"):
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
    assert ["counted runs" in note for note in notes["run"]] == [True, False], "a refusal is a note, too"
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
@pytest.mark.usefixtures("rewriting")
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
        ("upgrade", {"beside": "soon"}, "a duration such as"),
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


def test_the_dags_have_their_forms(space: Workspace) -> None:
    dags = state_dags(str(space.project / "dags/state.py"))
    changes = {operation.dag_id for operation in OPERATIONS}
    assert set(dags) == {"create_savepoint", "look_at_state", "verify_savepoint", *changes}
    for dag in dags.values():
        stream = dag.params.get_param("stream")
        assert stream.schema["enum"] == ["counted"]
        assert not stream.has_value, "a stream is chosen, never the first one by accident"
    chosen = {"partitions", *PRIVATE}
    for operation in OPERATIONS:
        dag = dags[operation.dag_id]
        assert [task.task_id for task in dag.topological_sort()] == [operation.check_name, "approval", operation.name]
        assert isinstance(dag.get_task("approval"), ApprovalOperator)
        assert dag.get_task(operation.name).retries > 3, "a store that is down for a minute is waited for"
        form = {name: value for name, value in dag.params.dump().items() if name not in ("stream", *chosen)}
        assert form.keys() | chosen >= FORMS[operation.name].keys()
        assert ("stop_first" in form) is operation.stops_first
    assert ChangeOperator.template_fields == ("stream",)
