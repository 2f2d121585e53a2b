"""The hosts of a fleet, each with its drivers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.health.signals.series import BESIDE
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.hosts.report import Drain, HostReport, HostState, host_name, state_of

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_MEASURED_WITHIN: Final = 120.0
"""Seconds within which the memory of a driver must have been measured to count; a driver measures every ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A driver and its memory (JVM, Python and what they started), with its standby's and its share of the pool. None:
    not measured lately."""

    stream: str
    driver_id: str
    resident_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host. `report`: None if it never reported; `drain`: None if it is not drained."""

    name: str
    state: HostState
    drivers: tuple[Placed, ...]
    report: HostReport | None
    drain: Drain | None

    @property
    def resident_bytes(self) -> float:
        """Memory of its drivers, as far as it was measured."""
        return sum(driver.resident_bytes or 0.0 for driver in self.drivers)


def hosts(store: Store, now: float) -> list[Host]:
    """Every host that reported within a week, is drained, or has a driver without a recorded exit. Raises StoreError.

    Args:
        now: this host's Unix seconds.
    """
    drivers = store.drivers.unfinished()
    since = now - _MEASURED_WITHIN
    names = ["resident_bytes", *BESIDE]
    found = store.measurements.recents([driver.stream for driver in drivers], since, names)
    memory = {stream: _newest_of_each(taken) for stream, taken in found.items() if taken}
    return listed(store.hosts.all(), store.hosts.drained(), drivers, memory, now + store.leases.clock_offset())


def _newest_of_each(taken: Sequence[Measurement]) -> float:
    """The driver's memory, its standby's and its share of the pool: the newest measurement of each. Pure."""
    return sum({measurement.name: measurement.value for measurement in taken}.values())


def listed(
    reports: Iterable[HostReport],
    drains: Mapping[str, Drain],
    drivers: Iterable[DriverRecord],
    memory: Mapping[str, float],
    now: float,
) -> list[Host]:
    """The hosts by name. Pure.

    Args:
        memory: stream -> bytes of its driver.
        now: by the clock of the store's server.
    """
    placed: dict[str, list[Placed]] = defaultdict(list)
    for driver in drivers:
        if driver.process is not None:
            resident = memory.get(driver.stream)
            placed[host_name(driver.process.host)].append(
                Placed(stream=driver.stream, driver_id=driver.driver_id, resident_bytes=resident)
            )
    reported = {report.name: report for report in reports}
    return [
        Host(
            name=name,
            state=state_of(reported.get(name), drains.get(name), drivers=len(placed[name]), now=now),
            drivers=tuple(sorted(placed[name], key=lambda driver: driver.stream)),
            report=reported.get(name),
            drain=drains.get(name),
        )
        for name in sorted({*reported, *drains, *placed})
    ]
