"""config/drills has a drill for each fault that can hit a stream of the catalogue as it is declared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

import pytest
from croniter import croniter

from streamwarden.drills.faults import FAULTS, Fault
from streamwarden.drills.faults.checkpoint_damage import RULES
from streamwarden.drills.faults.driver.kill_driver import KillMoment
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec
from support.simulated.drill_specs import fault_of
from support.streams.catalogue import drills, streams

WEEK_BEGINS = datetime(2026, 1, 4, 0, 30, tzinfo=UTC)
HOUR = 3600.0


def experiments() -> Iterator[Fault]:
    """Each fault with each of its options, without those that take commands of an installation."""
    for kind, fault in FAULTS.items():
        if not fault.needs_options():
            yield fault_of(kind)
    for moment in KillMoment:
        if moment is not KillMoment.AFTER_HANDOVER:  # no stream of the catalogue has a function
            yield fault_of("kill_driver", moment=moment)
    for target, damage in RULES:
        yield fault_of("checkpoint_damage", target=target, damage=damage)


@cache
def _streams() -> list[StreamSpec]:
    return list(streams().values())


def can_hit(fault: Fault) -> bool:
    """Whether the fault can hit one of the catalogue's streams."""
    for stream in _streams():
        try:
            fault.chosen.require(stream.name, stream)
        except DrillAborted:
            continue
        return True
    return False


def options(fault: Fault) -> tuple[object, ...]:
    return fault.kind, *(getattr(fault, name, None) for name in ("moment", "target", "damage"))


def named(fault: Fault) -> str:
    return "-".join(str(option) for option in options(fault) if option is not None)


@pytest.mark.parametrize("fault", experiments(), ids=named)
def test_each_fault_that_can_hit_the_catalogue_has_a_drill(fault: Fault) -> None:
    shipped = {options(spec.fault) for spec in drills().values()}
    assert (options(fault) in shipped) == can_hit(fault)


def test_a_fault_of_a_broker_cannot_hit_a_stream_that_reads_files() -> None:
    assert not can_hit(fault_of("retention_passed"))


def test_the_weekly_drills_never_begin_within_an_hour_of_one_another() -> None:
    schedules = {spec.name: spec.schedule for spec in drills().values()}
    daily = {name for name, schedule in schedules.items() if schedule == "@daily"}
    assert daily == {"kill_driver"}
    begins = sorted(
        croniter(schedule, WEEK_BEGINS).get_next(float)
        for name, schedule in schedules.items()
        if schedule is not None and name not in daily
    )
    assert len(begins) == len(schedules) - 1
    assert begins[-1] - begins[0] < 7 * 24 * HOUR
    assert all(later - earlier > HOUR for earlier, later in pairwise(begins))
