"""Mutes: for a time, nothing is sent of a stream, of some of its checks, or of the whole fleet. Pure.

A maintenance window is a mute that was planned. The incidents of what is muted are still opened, shown and resolved.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from streamwarden.health.incidents.incident import Incident
from streamwarden.lifecycle.queries import owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """Times are Unix seconds. Only the three fields of the early end are ever set later, and only once.

    Args:
        who: who created it, when (`created_at`) and why (`reason`).
        streams: streams and queries; a stream stands for all its queries too. Empty: the whole fleet, with the
            incidents that concern all streams.
        checks: names of checks; empty: every check.
        tag: the tag by which the streams were chosen; empty if they were named.
        planned: whether it is a maintenance window.
        ended_at, ended_by, ended_reason: a person ended it before its time.
    """

    mute_id: str
    who: str
    reason: str
    created_at: float
    starts_at: float
    until: float
    streams: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    tag: str = ""
    planned: bool = False
    ended_at: float | None = None
    ended_by: str = ""
    ended_reason: str = ""

    @property
    def over_at(self) -> float:
        """When it is over: at its time, or when a person ended it."""
        return self.until if self.ended_at is None else min(self.until, self.ended_at)

    @property
    def word(self) -> str:
        """The label of a stream or an incident while it is in force."""
        return "in maintenance" if self.planned else "muted"

    @property
    def scope(self) -> str:
        """Its scope, as text."""
        if not self.streams:
            return "the whole fleet"
        streams = ", ".join(self.streams) + (f" (tag {self.tag})" if self.tag else "")
        return f"{streams}: {', '.join(self.checks)}" if self.checks else streams

    def in_force(self, at: float) -> bool:
        return self.starts_at <= at < self.over_at

    def ended_within(self, since: float, now: float) -> bool:
        """Whether it was in force, and is over since some time after `since` and not after `now`."""
        return self.starts_at < self.over_at and since < self.over_at <= now

    def covers(self, stream: str, check: str | None = None) -> bool:
        """Whether it is about this stream or query, and this check. `check`: None: every check of the stream, so that a
        mute of single checks does not count."""
        if self.checks and check not in self.checks:
            return False
        return not self.streams or stream in self.streams or owner(stream) in self.streams


def mute_of(stream: str, mutes: Iterable[Mute], at: float, check: str | None = None) -> Mute | None:
    """The mute that is in force for this stream or query at `at`, the one that lasts longest; None if there is none.
    `check`: see `Mute.covers`."""
    in_force = [mute for mute in mutes if mute.in_force(at) and mute.covers(stream, check)]
    return max(in_force, key=lambda mute: mute.over_at, default=None)


def muted(incident: Incident, mutes: Iterable[Mute], at: float) -> Mute | None:
    """The mute that is in force for this incident at `at`, the one that lasts longest; None if there is none."""
    return mute_of(incident.stream, mutes, at, incident.check)


def lapsed(incident: Incident, mutes: Iterable[Mute], since: float, now: float) -> Mute | None:
    """The mute of this incident that ended last, after `since` (Unix seconds); None if none did."""
    ended = [mute for mute in mutes if mute.ended_within(since, now) and mute.covers(incident.stream, incident.check)]
    return max(ended, key=lambda mute: mute.over_at, default=None)
