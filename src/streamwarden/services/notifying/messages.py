"""The texts that are sent: about an incident with its consequences, about a crash that was cured, about a failed run.
Pure."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from streamwarden.health.check_relations import EVERYWHERE
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.handling import UNHANDLED, Handling
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import lapsed
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.redaction import redacted_text
from streamwarden.services.notifying.crashes import CuredCrash
from streamwarden.services.notifying.links import Links
from streamwarden.units import format_duration

TEST: Final = "test"
"""Subject of a test message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """Plain text for any channel, without secrets.

    Args:
        subject: id of the incident or event; no channel is sent two messages about one state of it.
        status: how bad it is; OK: it is over.
        links: where the reader finds more; they are in `body` too.
        incident: the root incident; None for an event.
        stream: the stream that an event is about; a mute of it covers the event.
    """

    subject: str
    status: Status
    title: str
    body: str
    links: Links = field(default_factory=Links)
    incident: Incident | None = None
    stream: str = EVERYWHERE

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", redacted_text(self.title))
        object.__setattr__(self, "body", redacted_text(self.body))


def compose(group: IncidentGroup, now: float, links: Links, handled: Handling = UNHANDLED) -> Notification:
    """The text about an incident: stream, problem, time, who takes care of it, what follows from it, what to do, where
    to look. `group`: its root as the channel was notified of it, so that the message names a mute that ended since
    then."""
    incident = group.root
    over = incident.resolved_at is not None
    lines = [
        *(_ended(incident) if over else _opened(group, now)),
        *_handled(group, handled, now),
        *links.lines,
        f"Incident {incident.incident_id}",
    ]
    return Notification(
        subject=incident.incident_id,
        status=Status.OK if over else group.status,
        title=f"{'RESOLVED' if over else group.status}: {shown_stream(incident)}: {shown_check(incident)}",
        body="\n".join(lines),
        links=links,
        incident=incident,
    )


def _ended(incident: Incident) -> Iterator[str]:
    end = incident.resolved_at or incident.updated_at
    lasted = format_duration(max(0.0, end - incident.opened_at))
    yield f"The incident of {shown_stream(incident)} is resolved: {incident.reason}"
    yield (
        f"It lasted {lasted}, from {_moment(incident.opened_at)} to {_moment(end)}; "
        f"its worst status was {incident.peak}."
    )


def _opened(group: IncidentGroup, now: float) -> Iterator[str]:
    incident = group.root
    worst = f"; its worst status was {incident.peak}." if incident.peak is not incident.status else "."
    yield f"{shown_stream(incident)}: {incident.reason}"
    yield f"Open for {format_duration(max(0.0, now - incident.opened_at))}, since {_moment(incident.opened_at)}{worst}"
    if incident.advice:
        yield f"What to do: {incident.advice}"
    for consequence in group.consequences:
        if consequence.resolved_at is None:
            where = f"{shown_stream(consequence)}: {shown_check(consequence)}"
            yield f"Consequence: {consequence.status} {where}: {consequence.reason}"
    if incident.stream == EVERYWHERE:
        yield "Details: streamwarden incidents; streamwarden status"
    else:
        yield f"Details: streamwarden check {incident.stream}; streamwarden status {incident.stream}"


def _handled(group: IncidentGroup, handled: Handling, now: float) -> Iterator[str]:
    """The acknowledgement, and the mute that held the message back."""
    incident = group.root
    acknowledgement = handled.acknowledged(incident)
    if acknowledgement is not None:
        worse = "" if acknowledgement.covers(group.status) else f", when it was {acknowledgement.status}"
        comment = f": {acknowledgement.text}" if acknowledgement.text else ""
        yield f"Acknowledged by {acknowledgement.who} at {_moment(acknowledgement.at)}{worse}{comment}"
    mute = lapsed(incident, handled.mutes, incident.notified_at or incident.opened_at, now)
    if mute is not None:
        yield f"It was {mute.word} until {_moment(mute.over_at)}, by {mute.who}: {mute.reason}"


def shown_stream(incident: Incident) -> str:
    """The stream as a message names it."""
    return "all streams" if incident.stream == EVERYWHERE else incident.stream


def shown_check(incident: Incident) -> str:
    """The check as a message names it."""
    return incident.check.replace("_", " ")


def crash_message(crash: CuredCrash, links: Links) -> Notification:
    """A message on a crash and its restart."""
    lines = (
        f"A driver of {crash.driver.stream} crashed at {_moment(crash.exit.ended_at)}: {describe(crash.exit)}",
        f"It was restarted, and the query runs again since {_moment(crash.restarted_at)}, "
        f"{format_duration(crash.seconds)} later. Nothing has to be done.",
        f"Details: streamwarden status {crash.driver.stream}",
        *links.lines,
        f"Driver {crash.driver.driver_id}",
    )
    title = f"CRASHED AND RESTARTED: {crash.driver.stream}"
    return Notification(
        subject=f"crash:{crash.driver.driver_id}",
        status=Status.WARNING,
        title=title,
        body="\n".join(lines),
        links=links,
        stream=crash.driver.stream,
    )


def run_message(dag: str, run: str, reason: str, links: Links, stream: str = EVERYWHERE) -> Notification:
    """A message on a failed DAG run that no incident explains. `stream`: whose DAG it is; a mute of the stream covers
    the message."""
    lines = (f"The run {run} of the DAG {dag} failed: {reason}", *links.lines)
    return Notification(
        subject="run:" + hashlib.sha256(f"{dag} {run}".encode()).hexdigest(),
        status=Status.CRITICAL,
        title=f"FAILED: DAG {dag}",
        body="\n".join(lines),
        links=links,
        stream=stream,
    )


def sample_message(now: float, where: str) -> Notification:
    """A message that shows that a channel works."""
    body = f"`streamwarden notify test` sent this message from {where} at {_moment(now)}. Nothing has to be done."
    return Notification(subject=TEST, status=Status.OK, title="TEST: Streamwarden", body=body)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
