"""Log of the actions on one incident, mutes and maintenance windows included: who, when and why. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import IncidentAction
from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Times are Unix seconds.

    Args:
        what: in words: `acknowledged`, `muted`, …
        said: the comment or the reason; empty if none was given.
        status: of the incident with its consequences at that time; None: a mute does not depend on it.
        since, until: when a mute that was created begins and ends.
        scope: what a mute covers.
    """

    at: float
    who: str
    what: str
    said: str
    status: Status | None = None
    since: float | None = None
    until: float | None = None
    scope: str = ""


def incident_log(
    incident: Incident, actions: Iterable[IncidentAction], mutes: Iterable[Mute], now: float
) -> tuple[LogEntry, ...]:
    """The entries, oldest first. `mutes`: those that cover the incident and were in force while it was open count, also
    if they are over."""
    entries = [
        LogEntry(at=action.at, who=action.who, what=action.kind.value, said=action.text, status=action.status)
        for action in actions
    ]
    for mute in concerning(incident, mutes, now):
        entries += _of_mute(mute)
    return tuple(sorted(entries, key=lambda entry: entry.at))


def concerning(incident: Incident, mutes: Iterable[Mute], now: float) -> list[Mute]:
    """The mutes that cover the incident and were in force at some time while it was open, or will be."""
    end = now if incident.resolved_at is None else incident.resolved_at
    return [
        mute
        for mute in mutes
        if mute.covers(incident.stream, incident.check)
        and mute.over_at > incident.opened_at
        and (mute.starts_at <= end or incident.resolved_at is None)
    ]


def _of_mute(mute: Mute) -> Iterator[LogEntry]:
    name = "maintenance" if mute.planned else "mute"
    yield LogEntry(
        at=mute.created_at,
        who=mute.who,
        what="planned maintenance" if mute.planned else "muted",
        said=mute.reason,
        since=mute.starts_at,
        until=mute.until,
        scope=mute.scope,
    )
    if mute.ended_at is not None:
        yield LogEntry(
            at=mute.ended_at, who=mute.ended_by, what=f"ended the {name}", said=mute.ended_reason, scope=mute.scope
        )
