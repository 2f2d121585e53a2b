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
    for each in found:
        name = owner(each.stream)
        worst[name] = min(rank(each), worst.get(name, len(_ORDER)))
    return sorted(found, key=lambda each: (worst[owner(each.stream)], owner(each.stream), each.stream))


_ORDER: Final[tuple[Callable[[StreamStatus], bool], ...]] = (
    lambda each: each.lacks_driver,
    lambda each: each.in_trouble,
    lambda each: each.state not in QUIET and each.health is Status.WARNING,
    lambda each: each.state == "starting",
    lambda each: each.cured is not None,
    lambda each: each.state == "running",
    lambda each: each.state == "completed",
    lambda each: each.state == "stopped",
)
"""The first that is true of a stream is its place."""


def rank(each: StreamStatus) -> int:
    """0 for the worst trouble."""
    return next((place for place, holds in enumerate(_ORDER) if holds(each)), len(_ORDER))
