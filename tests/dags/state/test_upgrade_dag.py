"""`upgrade_stream`: it tries a version, asks, and switches to exactly what was approved.

The store, the checkpoint and the savepoint are real, and the process that stands for a driver; what Airflow says is
given. Spark is not started: tests/spark/jobs looks at states, and tests/spark/proofs goes on from a savepoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from streamwarden.airflow.dags.state.operations import Checked
from streamwarden.errors import ProcessError
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight, Refused
from streamwarden.services.upgrades import switching, upgrading
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.services.workspace import Workspace
from support.airflow.change_runs import BY, KEY, NEW_JOB, NEWEST, Run, committed
from support.airflow.project import living_driver

ROWS = OutputDifference(old=5, new=5, key=("key",))
SAME = Preflight(
    stream="counted",
    job=NEW_JOB,
    batch=NEWEST,
    first=12,
    last=NEWEST,
    operators=("stateStoreSave",),
    seen=True,
    output=ROWS,
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


@pytest.mark.parametrize("beside", [replace(ROWS, gone=1), ROWS])
def test_a_version_runs_beside_after_the_approval_and_is_switched_to_if_it_writes_the_same(
    space: Workspace, saved: str, monkeypatch: pytest.MonkeyPatch, beside: OutputDifference
) -> None:
    made = Upgraded(space, SAME, monkeypatch)
    left = space.data / "upgrades/counted/20250101T000000Z/beside"
    left.mkdir(parents=True)
    asked: list[float] = []

    @contextmanager
    def simulated(proposal: Proposal, folder: Path, seconds: float, *_: Any, **__: Any) -> Iterator[Any]:
        asked.append(seconds)
        yield SimpleNamespace(follow=lambda seconds: beside, finish=lambda batch: "")

    monkeypatch.setattr(upgrading, "beside", simulated)
    monkeypatch.setattr(switching.Switch, "_take_over", lambda self: None)
    run = Run(space, "upgrade", beside="1 hour", get_dag=made.launch())
    run.check()
    assert "runs beside it for 1 hour; then it is stopped" in Checked(**run.left["preflight"]).body("why")
    assert asked == []
    run.approve()
    if beside.differs:
        with pytest.raises(AirflowFailException, match="nothing was changed: the output differs: 1 row of the old"):
            run.change()
        assert (made.file.read_text(), desired(space)) == (made.old, None)
    else:
        assert run.change() == "done"
        assert f"job: {NEW_JOB}" in made.file.read_text()
    assert asked == [3600.0]
    assert not left.exists(), "what a killed one left is removed"


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
