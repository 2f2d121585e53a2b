"""How a live stream stands before a drill hits it, and that nothing of it is ever removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.drills.ports import SpecCodec
from streamwarden.drills.recorder import RunRecorder
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, DrillAborted
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, Restarter, Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.drilling.archive import DrillArchive, SystemClock
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.live import LiveStreams
from streamwarden.services.forks.spec_storage import StoredSpecs
from streamwarden.services.housekeeping import KEEP, sweep
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.streams.projects import Project

Launch = Callable[..., DriverRecord]


def streams(space: Workspace, paused: bool | None = False) -> LiveStreams:
    return LiveStreams(space.store, space.fleet, space.data, space.stream, lambda _: paused)


@pytest.fixture
def launch(space: Workspace) -> Launch:
    """A driver of `counted` in the store; this very process stands for it."""

    def launch(
        name: str = "counted-1", process: ProcessIdentity | None = None, at: float | None = None
    ) -> DriverRecord:
        record = DriverRecord(
            driver_id=name,
            stream="counted",
            checkpoint=space.stream("counted").checkpoint,
            token=1,
            folder=str(space.data / "nowhere"),
            launched_by="test",
            launched_at=time.time() if at is None else at,
            process=process or processes.identity(os.getpid()),
        )
        space.store.drivers.launched(record)
        return record

    return launch


def test_a_running_stream_under_its_dag_may_be_hit(space: Workspace, launch: Launch) -> None:
    record = launch()
    status = streams(space).status("counted")
    assert status.alive
    assert status.here
    assert status.supervised
    assert status.restarter is Restarter.DAG
    assert status.driver is not None
    assert status.driver.record.driver_id == record.driver_id


def test_a_stream_that_never_ran_is_not_alive(space: Workspace) -> None:
    status = streams(space).status("counted")
    assert (status.driver, status.alive, status.here) == (None, False, False)


@pytest.mark.parametrize(("paused", "restarter"), [(True, Restarter.PAUSED_DAG), (None, Restarter.NOTHING)])
def test_nothing_restarts_a_stream_whose_dag_is_paused_or_unknown(
    space: Workspace, launch: Launch, paused: bool | None, restarter: Restarter
) -> None:
    launch()
    status = streams(space, paused).status("counted")
    assert status.restarter is restarter
    assert not status.supervised


def test_a_supervisor_in_a_shell_restarts_it_too(space: Workspace, launch: Launch) -> None:
    record = launch()
    space.store.drivers.event(supervised(record.driver_id, Supervisor.SHELL, time.time()))
    assert streams(space, None).status("counted").supervised


def test_a_driver_on_another_host_is_not_here(space: Workspace, launch: Launch) -> None:
    launch(process=ProcessIdentity(host="elsewhere", pid=1, started_at=1))
    assert not streams(space).status("counted").here


def test_a_stopped_stream_and_one_that_supervision_left_down(space: Workspace, launch: Launch) -> None:
    record, now = launch(), time.time()
    space.store.stops.set_desired(
        DesiredState(stream="counted", desired=Desired.STOPPED, changed_by="ada", reason="", changed_at=now)
    )
    space.store.drivers.event(
        DriverEvent(driver_id=record.driver_id, at=now, kind=GAVE_UP, detail={"reason": "out of budget"})
    )
    status = streams(space).status("counted")
    assert status.stopped
    assert status.down == "out of budget"


def test_one_more_failure_than_the_restart_budget_allows_would_leave_it_down(space: Workspace, launch: Launch) -> None:
    """Negative control: with one failure less a driver that is killed now is started again."""
    budget, now = space.stream("counted").restart.budget.count, time.time()
    for number in range(budget - 1):
        launch(f"counted-{number}", at=now - 100 + number)
        space.store.drivers.exited(f"counted-{number}", ExitRecord(kind=ExitKind.FAILED, ended_at=now - 99 + number))
    launch("counted-new")
    assert streams(space).status("counted").down is None
    launch("counted-more", at=now - 50)
    space.store.drivers.exited("counted-more", ExitRecord(kind=ExitKind.FAILED, ended_at=now - 49))
    down = streams(space).status("counted").down
    assert down is not None
    assert f"the budget is {budget} restarts" in down


def test_open_incidents_of_the_stream_and_runs_of_every_drill_are_seen(space: Workspace) -> None:
    open_incident(space.store.incidents, "counted", "6 GB", "", 1.0)
    open_incident(space.store.incidents, "another", "7 GB", "", 1.0)
    for name, ended in (("a-1", None), ("b-1", 5.0)):
        status = DrillStatus.RUNNING if ended is None else DrillStatus.ABORTED
        run = DrillRun(run_id=name, drill="d", stream="another", started_at=1.0, ended_at=ended, status=status)
        space.store.journals.save(run)
    status = streams(space).status("counted")
    assert [each.reason for each in status.incidents] == ["6 GB"]
    assert [each.run_id for each in status.drills] == ["a-1"]


def test_a_stream_that_no_audit_can_read_is_refused_before_anything_else(space: Workspace, project: Project) -> None:
    project.write("spark_jobs/script.py", "spark.readStream\n")
    path = project.stream("loose")
    path.write_text("name: loose\njob: spark_jobs/script.py\ncheckpoint: checkpoints/loose\n")
    with pytest.raises(DrillAborted, match="the job opens its source or its sink itself") as error:
        streams(space).declared("loose")
    assert "target: production" in error.value.next_step
    with pytest.raises(DrillAborted, match="there is no stream"):
        streams(space).declared("nobody")


# nothing is removed

RUN = "kill-20260101T000000-abc"


@pytest.fixture
def origin(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    return stream_of(tmp_path / "origin", files=17)


def everything(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def live_view(spec: StreamSpec) -> ForkView:
    return ForkView(
        stream=spec.name,
        origin=spec.name,
        checkpoint=spec.checkpoint,
        output=spec.sink.place,
        batch=None,
        unseen=None,
        batches_left=None,
        input_digest="",
        bounded=False,
        spec=spec,
    )


def test_the_steps_of_a_drill_read_the_live_checkpoint_and_pass_the_stream_on(
    origin: StreamSpec, space: Workspace
) -> None:
    """Each step may be a separate process, which reads the run from the store. No fork is recorded: what heals a fork
    would end its driver and remove its scratch."""
    spec = replace(origin, file=str(space.project / "config/streams/minutes.yaml"))
    live, checkpoint = live_view(spec), ForkCheckpoint(space.store)
    assert live.live
    assert checkpoint.position(live).committed == 13
    assert [fact.batch_id for fact in checkpoint.batches(live)] == list(range(14))
    assert checkpoint.snapshot(live).size > 0
    specs = StoredSpecs(lambda _: spec)
    space.store.journals.save(DrillRun(run_id=RUN, drill="kill", stream="minutes", started_at=1.0))
    codec = SpecCodec(read=specs.read, write=specs.write)
    RunRecorder(RUN, space.store.journals, SystemClock(), codec).put(live=live)
    again = RunRecorder(RUN, space.store.journals, SystemClock(), codec)
    assert again.live == live
    assert again.fork is None


def test_removal_of_scratch_refuses_a_live_stream(origin: StreamSpec, tmp_path: Path) -> None:
    """Negative control: of a fork of the same stream the scratch is removed, and the stream is left alone."""
    forks = DrillForks(DrillArchive(tmp_path / "data"), lambda _: origin)
    before = everything(tmp_path / "origin")
    with pytest.raises(CheckpointError, match="is a live stream, and nothing of it is removed"):
        forks.clear(RUN, live_view(origin))
    assert everything(tmp_path / "origin") == before
    made = forks.make(RUN, "minutes", ForkSpec(), Feed.ORIGIN)
    assert forks.clear(RUN, made)
    assert not Path(made.spec.source.path or "").exists()
    assert everything(tmp_path / "origin") == before


def test_housekeeping_of_an_old_drill_leaves_the_live_stream_alone(space: Workspace, launch: Launch) -> None:
    """Negative control: the folder of the drill itself is removed."""
    spec, now = space.stream("counted"), time.time()
    places = [Path(spec.checkpoint), Path(str(spec.sink.path)), space.data / "drivers" / "counted" / "counted-1"]
    for place in places:
        place.mkdir(parents=True)
    launch(at=now - 2 * KEEP)
    space.store.drivers.exited("counted-1", ExitRecord(kind=ExitKind.KILLED, ended_at=now - 2 * KEEP))
    home = DrillArchive(space.data).folder(RUN)
    home.mkdir(parents=True, exist_ok=True)
    facts = {"live": {"stream": "counted", "origin": "counted", "checkpoint": spec.checkpoint}}
    space.store.journals.save(
        DrillRun(run_id=RUN, drill="kill", stream="counted", started_at=1.0, ended_at=2.0, facts=facts)
    )
    assert sweep(space.store, space.data, now).drills == 1
    assert not home.exists()
    assert all(place.is_dir() for place in places)
