"""Finds the streams that run although no file declares them: their file was removed, renamed or made unreadable.

Their drivers continue with the settings that they were started with. So pages, checks and commands show and judge them
by these settings, until they are stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.lifecycle.location import same_place
from streamwarden.services.fleet.driver_lookup import taking_over
from streamwarden.services.fleet.stream_history import started_with

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.config.loading import Catalog
    from streamwarden.lifecycle.driver import DriverRecord
    from streamwarden.services.fleet.fleet import Fleet


def with_undeclared(catalog: Catalog, store: Store, fleet: Fleet) -> Catalog:
    """The catalog with the streams that run and have no file, each with the spec that its driver was started with, as
    far as this host can read it. Forks of drills are none. Raises StoreError."""
    alive = [driver for driver in undeclared(catalog, store) if fleet.observe_record(driver).alive]
    specs = {driver.stream: spec for driver in alive if (spec := started_with(driver)) is not None}
    reasons = {driver.stream: why(catalog, driver) for driver in alive}
    return replace(catalog, streams={**specs, **catalog.streams}, undeclared=reasons)


def undeclared(catalog: Catalog, store: Store) -> list[DriverRecord]:
    """The newest driver of each stream without a file, if no exit of it is recorded. Raises StoreError."""
    declared = (*catalog.streams, *catalog.broken)
    return [driver for driver in store.drivers.unfinished(declared) if not is_fork(driver.stream)]


def why(catalog: Catalog, driver: DriverRecord) -> ConfigError:
    """What is wrong with a stream that runs without a file, and the way on."""
    heir = next(
        (name for name, spec in catalog.streams.items() if same_place(spec.checkpoint, driver.checkpoint)), None
    )
    near = next((stem for stem in catalog.broken if stem.partition(".")[0] == driver.stream), None)
    step = f"restore the file, or run `streamwarden stop {driver.stream}`"
    if heir is not None:
        step = taking_over(driver.stream, heir)
    elif near is not None:
        step = f"correct config/streams/{near}"
    return ConfigError(
        f"{driver.stream} runs without a declaration: driver {driver.driver_id} is alive, and no file in "
        "config/streams declares it",
        expected=f"config/streams/{driver.stream}.yaml",
        where=driver.checkpoint,
        next_step=step,
    )
