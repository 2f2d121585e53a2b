"""Drills on a simulated live stream: approved, struck, brought back by its supervision."""

from __future__ import annotations

from typing import Any

from streamwarden.drills.engine import Engine
from streamwarden.drills.live.approval import Answer
from streamwarden.drills.production import AllowedHours, ProductionSpec, Weekday
from streamwarden.drills.records.journal import DrillRun, DrillStep
from streamwarden.drills.records.sections import DrillTarget, SteadyStateSpec
from streamwarden.drills.spec import DrillSpec
from support.simulated.drill_specs import drill
from support.simulated.drill_world import World

HOURS = AllowedHours(start="00:00", end="24:00", days=tuple(Weekday))
RUN = "live-1"


def live_drill(kind: str = "kill_driver", **changes: Any) -> DrillSpec:
    """A drill on the live stream `flights`."""
    options = {"production": ProductionSpec(allowed_hours=HOURS), "steady_state": SteadyStateSpec(), **changes}
    return drill(kind, target=DrillTarget.PRODUCTION, **options)


def live_world(**knobs: Any) -> World:
    """A world in which the stream runs under its DAG, with input for a long time."""
    world = World(**{"total_batches": 10_000, **knobs})
    world.streams.start()
    return world


def approved(world: World, spec: DrillSpec, engine: Engine | None = None) -> Engine:
    """A run whose preflight has passed, and that a person has approved."""
    engine = engine or world.engine(spec)
    engine.begin(spec.name, RUN)
    engine.step(RUN, DrillStep.PREFLIGHT)
    assert engine.ask(RUN) is not None
    engine.answer(RUN, Answer(approved=True, by="ada", at=world.time))
    return engine


def finished(engine: Engine, spec: DrillSpec) -> DrillRun:
    """Every step, as the tasks of the DAG do them."""
    for step in spec.steps:
        run = engine.step(RUN, step)
    return run
