"""Reads the drills' results from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamwarden.drills.reporting.resilience import Resilience, resilience
from streamwarden.drills.spec import DrillSpec
from streamwarden.services.incidents.drill_incidents import overdue_now

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


def resilience_of(store: Store, drills: Mapping[str, DrillSpec], stream: str | None, now: float) -> list[Resilience]:
    """One row for each stream, fault and variant of it, sorted. Raises StoreError.

    Args:
        drills: all drills with a correct file, by name.
        stream: its rows alone, also those of drills that are no longer configured; None: of every stream that has a
            drill.
    """
    wanted = {name: spec for name, spec in drills.items() if stream in (None, spec.stream)}
    missed = overdue_now(store, wanted, store.journals.newest_of_drills(), now)
    late = [name for names in missed.values() for name in names]
    streams = {spec.stream for spec in wanted.values()} if stream is None else {stream}
    trials = (trial for trial in store.trials.newest(stream) if trial.stream in streams)
    return list(resilience(wanted, trials, late))
