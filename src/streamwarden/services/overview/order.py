"""The order in which streams are shown: those in trouble first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner

if TYPE_CHECKING:
    from streamwarden.services.overview.status import StreamStatus

QUIET: Final = ("stopped", "new", "completed")
"""States in which no driver runs, and none should."""


def by_trouble(found: Sequence[StreamStatus]) -> list[StreamStatus]:
    """Worst first, then by name. The queries of a stream stay below it, and count for it."""
    worst: dict[str, int] = {}
    for status in found:
        name = owner(status.stream)
        worst[name] = min(rank(status), worst.get(name, len(_ORDER)))
    return sorted(found, key=lambda status: (worst[owner(status.stream)], owner(status.stream), status.stream))


_ORDER: Final[tuple[Callable[[StreamStatus], bool], ...]] = (
    lambda status: status.in_trouble and status.lacks_driver and status.state != "broken",
    lambda status: status.in_trouble and status.state != "broken",
    lambda status: status.in_trouble,  # nothing runs, and nothing is lost
    lambda status: status.state != "stopped" and status.health is Status.WARNING,
    lambda status: status.state == "starting",
    lambda status: status.cured is not None,
    lambda status: status.state == "running",
    lambda status: status.state == "completed",
    lambda status: status.state == "stopped",
)
"""The first that is true of a stream is its place."""


def rank(status: StreamStatus) -> int:
    """0 for the worst trouble."""
    return next((place for place, holds in enumerate(_ORDER) if holds(status)), len(_ORDER))
