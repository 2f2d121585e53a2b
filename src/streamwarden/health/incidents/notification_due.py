"""Selects the incidents to notify now: only root incidents, whose messages list their consequences. Pure.

People hold messages back in two ways. Nothing is sent of what is muted, until the mute ends. An incident that somebody
acknowledged is not sent again for the same status.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.health.incidents.consequences import IncidentGroup, grouped
from streamwarden.health.incidents.handling import UNHANDLED, Handling
from streamwarden.health.incidents.incident import Incident, IncidentRepository
from streamwarden.health.incidents.mutes import Mute, lapsed, muted
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner

OLD_NEWS: Final = 86400.0
"""Seconds for which the end of an incident is still worth a notification. The end of a muted one counts from the end of
the mute, because it could not be sent before."""


def notifiable(repository: IncidentRepository, now: float, handling: Handling = UNHANDLED) -> tuple[IncidentGroup, ...]:
    """The incidents that a message may be about: the open roots, and what was resolved within the last day. The latter
    may be a consequence: if it was sent before its cause was known, its end is due, too.

    Incidents of streams that should be stopped are left out while they are open. What is muted is left out, also among
    the consequences. Raises StoreError.
    """
    # The resolved ones are read first, so that an incident that is resolved meanwhile is not missed.
    resolved = repository.ended(resolved_since(handling.mutes, now))
    ended = {incident.incident_id: incident for incident in resolved if _is_news(incident, handling.mutes, now)}
    current = [group for group in grouped(repository.alarming()) if group.root.is_root]
    groups = (
        *(IncidentGroup(incident) for incident in ended.values()),
        *(group for group in current if group.root.incident_id not in ended),
    )
    return audible(groups, handling.mutes, now)


def audible(groups: Iterable[IncidentGroup], mutes: Sequence[Mute], now: float) -> tuple[IncidentGroup, ...]:
    """The groups whose root is not muted, without the consequences that are.

    The consequences of a muted root are left out with it, as they are never sent themselves. Only a mute of the whole
    fleet covers a root that has consequences in several streams, so no mute hides what another stream suffers.
    """
    return tuple(
        replace(
            group,
            consequences=tuple(
                consequence for consequence in group.consequences if muted(consequence, mutes, now) is None
            ),
        )
        for group in groups
        if muted(group.root, mutes, now) is None
    )


def resolved_since(mutes: Iterable[Mute], now: float) -> float:
    """The earliest end of an incident (Unix seconds) that may still be worth a notification."""
    lately = (mute.starts_at for mute in mutes if mute.ended_within(now - OLD_NEWS, now))
    return min([now - OLD_NEWS, *lately])


def due(
    groups: Iterable[IncidentGroup], now: float, resend_interval: float, handling: Handling = UNHANDLED
) -> tuple[IncidentGroup, ...]:
    """The groups whose notification is due now.

    An open one: if it was never sent, if it or a consequence is worse than the last sent status, if another stream
    suffers from it since then, if a mute of it has ended since then, or if it was sent `resend_interval` ago. If
    somebody acknowledged its status, the last two do not count. If its last verdict was good, it is sent only when it
    is resolved. A resolved one: once, if its opening was sent. A status that changes between WARNING and CRITICAL is
    sent once as each within the interval, and once more if somebody acknowledged the WARNING meanwhile.

    Args:
        groups: what is `audible`.
    """
    return tuple(group for group in groups if _is_due(group, now, resend_interval, handling))


def _is_due(group: IncidentGroup, now: float, resend_interval: float, handling: Handling) -> bool:
    sent_at, sent = group.root.notified_at, group.root.notified_status
    if group.root.resolved_at is not None:
        return sent_at is not None and sent is not Status.OK
    if group.root.good:
        return False
    if sent_at is None or sent is None or group.status.rank > sent.rank or _has_spread(group, sent_at):
        return True
    acknowledgement = handling.acknowledged(group.root)
    if acknowledgement is not None and acknowledgement.covers(group.status):
        return False
    return (
        now - sent_at >= resend_interval
        or lapsed(group.root, handling.mutes, sent_at, now) is not None
        # nothing was sent since a better status was acknowledged
        or (acknowledgement is not None and acknowledgement.at > sent_at)
    )


def _has_spread(group: IncidentGroup, sent_at: float) -> bool:
    """Whether the cause, a component of Airflow, has reached another stream since it was sent."""
    since = [
        consequence
        for consequence in group.consequences
        if consequence.resolved_at is None and consequence.opened_at > sent_at
    ]
    return any(owner(consequence.stream) != owner(group.root.stream) for consequence in since)


def _is_news(ended: Incident, mutes: Iterable[Mute], now: float) -> bool:
    """Whether it was resolved within the last day, or during a mute that ended within the last day."""
    at = ended.resolved_at or 0.0
    held_back = (mute for mute in mutes if mute.ended_within(now - OLD_NEWS, now) and at >= mute.starts_at)
    return at >= now - OLD_NEWS or any(mute.covers(ended.stream, ended.check) for mute in held_back)
