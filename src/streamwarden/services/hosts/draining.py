"""Drains a host from anywhere: it starts no driver any more, and those that it has end at a batch boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.hosts.report import Drain, host_name
from streamwarden.services.fleet.draining import drain
from streamwarden.services.hosts.listing import hosts

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.lifecycle.driver import DriverRecord
    from streamwarden.services.fleet.exits.exit_recorder import Observation
    from streamwarden.services.fleet.fleet import Fleet


def drain_host(store: Store, fleet: Fleet, name: str, *, by: str, reason: str, now: float) -> list[Observation]:
    """Let the host start no driver, and stop those that it has; how each of them ended. They stay wanted, so that their
    supervisors start them on other hosts. A driver obeys through the store, also if nothing else runs on its host.

    Raises:
        ConfigError: there is no host of this name.
        ProcessError: a driver is alive after its stop policy's last deadline.
        StoreError: the store is down.
    """
    require_host(store, name, now)
    store.hosts.drain(Drain(host=name, requested_by=by, reason=reason, requested_at=now))

    def is_there(driver: DriverRecord) -> bool:
        return driver.process is not None and host_name(driver.process.host) == name

    return drain(store, fleet, requested_by=by, reason=reason, of=is_there)


def require_host(store: Store, name: str, now: float) -> None:
    """Raises ConfigError for a name that no host has."""
    names = [host.name for host in hosts(store, now)]
    if name not in names:
        raise ConfigError(
            f"there is no host {name!r}",
            expected=f"one of {', '.join(names)}" if names else "a host that reports, or runs a driver",
            next_step="see `streamwarden hosts`; a host reports while `streamwarden hosts run` runs there",
        )
