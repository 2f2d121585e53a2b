"""What forbids a drill on a live stream: checked before a person is asked, after the answer, and before the strike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from streamwarden.drills.faults import FAULTS
from streamwarden.drills.faults.service_outage import OutageService
from streamwarden.drills.production import AllowedHours, ProductionSpec
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.supervision.restarter import Restarter
from support.simulated.drill_live import RUN, approved, finished, live_drill, live_world
from support.simulated.drill_specs import OUTAGE, drill
from support.simulated.drill_world import World

CLOSED = AllowedHours(start="00:00", end="00:01", timezone="UTC")
"""The world begins at 13:46 UTC on a Monday."""


def incident(check: str = "state_size", stream: str = "flights") -> Incident:
    return Incident(
        incident_id=check, stream=stream, check=check, status=Status.CRITICAL, opened_at=0, updated_at=0, reason="6 GB"
    )


def unfinished(world: World, spec: DrillSpec, stream: str = "flights") -> None:
    """A run of another drill that has not ended."""
    other = replace(spec, name="other", stream=stream)
    engine = world.engine(other)
    engine.begin("other", "other-1")


def _incident(world: World) -> None:
    world.streams.incidents = (incident(),)


def _stopped(world: World) -> None:
    world.streams.stopped = True


def _dead(world: World) -> None:
    world.streams.restarts_after = None
    world.kill("d1")


def _elsewhere(world: World) -> None:
    world.streams.here = False


def _paused(world: World) -> None:
    world.streams.restarter = Restarter.PAUSED_DAG


def _alone(world: World) -> None:
    world.streams.restarter = Restarter.NOTHING


def _unknown(world: World) -> None:
    world.streams.restarter = Restarter.UNKNOWN


def _exhausted(world: World) -> None:
    world.streams.down = "6 failures within 1 h, but the budget is 5 restarts"


def _on_a_fork(world: World) -> None:
    unfinished(world, drill())


def _on_another_live_stream(world: World) -> None:
    unfinished(world, live_drill(), stream="orders")


REFUSALS: dict[str, tuple[Callable[[World], None], str]] = {
    "an open incident": (_incident, "the stream has an open incident: state_size: 6 GB"),
    "stopped on purpose": (_stopped, "was stopped by a person"),
    "no driver": (_dead, "does not run"),
    "on another host": (_elsewhere, "runs on another host"),
    "its DAG is paused": (_paused, "its DAG is paused"),
    "no supervisor": (_alone, "no supervisor follows its driver"),
    "unknown supervision": (_unknown, "it is unknown whether its DAG is paused"),
    "no restart left": (_exhausted, "the budget is 5 restarts"),
    "a drill on a fork of it": (_on_a_fork, "another drill has not ended: other-1"),
    "a drill on another live stream": (_on_another_live_stream, "another drill has not ended: other-1"),
}


def assert_refused(run: DrillRun, reason: str) -> None:
    assert run.status is DrillStatus.ABORTED
    assert reason in run.reason
    for part in ("; expected ", "; next: "):
        assert part in run.reason, "an error has four parts"


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_before_a_person_is_asked(name: str) -> None:
    change, reason = REFUSALS[name]
    world, spec = live_world(), live_drill()
    change(world)
    before = list(world.signals)
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    assert engine.ask(RUN) is None, "nobody is asked"
    assert_refused(finished(engine, spec), reason)
    assert world.signals == before


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_although_a_person_has_approved_it_meanwhile(name: str) -> None:
    change, reason = REFUSALS[name]
    world, spec = live_world(), live_drill()
    engine = approved(world, spec)
    change(world)
    before = list(world.signals)
    run = finished(engine, spec)
    assert_refused(run, reason)
    assert not RunState.of(run).declined, "this is no decision of a person: the run fails"
    assert world.signals == before


@pytest.mark.parametrize("name", sorted(set(REFUSALS) - {"no driver"}))
def test_it_is_refused_right_before_the_strike(name: str) -> None:
    change, reason = REFUSALS[name]
    world, spec = live_world(), live_drill()
    engine = approved(world, spec)
    engine.step(RUN, DrillStep.STEADY_STATE)
    change(world)
    assert_refused(finished(engine, spec), reason)
    assert world.signals == []


def test_outside_the_allowed_hours_it_is_refused_with_the_hours() -> None:
    world, spec = live_world(), live_drill(production=ProductionSpec(allowed_hours=CLOSED))
    engine = world.engine(spec)
    run = finished(engine, replace(spec)) if engine.begin(spec.name, RUN) else None
    assert run is not None
    assert_refused(run, "it is Mon 1970-01-12 13:46 UTC, which is outside the allowed hours")
    assert "expected 00:00 to 00:01 on mon, tue, wed, thu, fri (UTC)" in run.reason


def test_an_answer_after_the_allowed_hours_comes_too_late() -> None:
    open_now = AllowedHours(start="13:00", end="14:00", timezone="UTC")
    world, spec = live_world(), live_drill(production=ProductionSpec(allowed_hours=open_now))
    engine = approved(world, spec)
    world.sleep(3600)
    assert_refused(finished(engine, spec), "outside the allowed hours")
    assert world.signals == []


def test_incidents_that_only_the_drill_itself_can_resolve_do_not_forbid_it() -> None:
    world, spec = live_world(), live_drill()
    world.streams.incidents = (incident(f"drill_{spec.name}"), incident("drill_overdue"))
    assert finished(approved(world, spec), spec).passed


def test_a_drill_on_a_fork_of_another_stream_does_not_forbid_it() -> None:
    world, spec = live_world(), live_drill()
    unfinished(world, drill(), stream="orders")
    world.source = world.sink = None
    engine = world.engine(spec)
    world.source, world.sink = "files", "parquet"
    assert finished(approved(world, spec, engine), spec).passed


def test_a_run_that_cannot_be_read_counts_as_one_on_a_live_stream() -> None:
    world, spec = live_world(), live_drill()
    world.journals.save(DrillRun(run_id="old-1", drill="old", stream="orders", started_at=0.0, facts={}))
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    assert_refused(finished(engine, spec), "old-1")


MAY = {
    "controlled_restart",
    "kill_driver",
    "kill_executor",
    "kill_after_database_commit",
    "service_outage",
    "sink_slow",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_only_faults_that_say_so_may_hit_a_live_stream(kind: str) -> None:
    """A fault that inherits from another one has to say it again."""
    spec = live_drill(kind)
    fault = spec.fault.chosen
    assert fault.live.allowed is (kind in MAY)
    assert fault.live.reason
    if kind in MAY:
        return
    world = live_world()
    engine = world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    assert_refused(finished(engine, spec), f"{kind} may not hit the live stream flights, because {fault.live.reason}")
    assert world.signals == []


@pytest.mark.parametrize("service", OutageService)
def test_outage_may_hit_only_services_that_neither_the_drill_nor_others_need(service: OutageService) -> None:
    spec = drill("service_outage").fault
    fault = replace(spec, outage=replace(OUTAGE, service=service)).chosen
    assert fault.live.allowed is (service not in (OutageService.STORE, OutageService.DISK))
