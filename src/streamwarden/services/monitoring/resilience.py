"""Reads what the drills have shown from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamwarden.drills.resilience import Resilience, resilience
from streamwarden.drills.spec import DrillSpec
from streamwarden.services.monitoring.drill_incidents import overdue_drills

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

RUNS: Final = 50
"""Newest runs of a stream that count."""


def resilience_of(store: Store, drills: Mapping[str, DrillSpec], stream: str | None, now: float) -> list[Resilience]:
    """One row for each stream and fault, sorted. Raises StoreError.

    Args:
        drills: all drills with a correct file, by name.
        stream: its rows alone, also those of drills that are no longer configured; None: of every stream that has a
            drill.
    """
    wanted = {name: spec for name, spec in drills.items() if stream in (None, spec.stream)}
    streams = sorted({spec.stream for spec in wanted.values()}) if stream is None else [stream]
    runs = {name: store.journals.recent(stream=name, limit=RUNS) for name in streams}
    of_drills = {name: [run for run in runs[spec.stream] if run.drill == name] for name, spec in wanted.items()}
    missed = overdue_drills(wanted, of_drills, store.drill_schedules.since(), now)
    late = [name for each in missed.values() for name in each]
    return [row for name in streams for row in resilience(_of(wanted, name), runs[name], late)]


def _of(drills: Mapping[str, DrillSpec], stream: str) -> dict[str, DrillSpec]:
    return {name: spec for name, spec in drills.items() if spec.stream == stream}
