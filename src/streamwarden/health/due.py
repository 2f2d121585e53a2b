"""Which incidents are to be notified now: only root incidents, whose messages list their consequences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streamwarden.health.consequences import IncidentGroup, grouped
from streamwarden.health.incident import IncidentRepository
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner

OLD_NEWS: Final = 86400.0
"""Seconds for which the end of an incident is still worth a notification."""


def notifiable(repository: IncidentRepository, now: float) -> tuple[IncidentGroup, ...]:
    """The root incidents that a message may be about: the open ones, and those resolved within the last day.

    Incidents of streams that should be stopped are left out while they are open. Raises StoreError.
    """
    # The resolved ones are read first, so that an incident that is resolved meanwhile is not missed.
    ended = {each.incident_id: each for each in repository.ended(now - OLD_NEWS) if each.is_root}
    current = [each for each in grouped(repository.alarming()) if each.root.is_root]
    return (
        *(IncidentGroup(each) for each in ended.values()),
        *(each for each in current if each.root.incident_id not in ended),
    )


def due(groups: Iterable[IncidentGroup], now: float, resend_interval: float) -> tuple[IncidentGroup, ...]:
    """The groups whose notification is due now.

    An open one: if it was never sent, if it or a consequence is worse than the last sent status, if another stream
    suffers from it since then, or if it was sent `resend_interval` ago. If its last verdict was good, it is sent only
    when it is resolved. A resolved one: once, if its opening was sent. A status that changes between WARNING and
    CRITICAL is sent once as each within the interval.
    """
    return tuple(group for group in groups if _is_due(group, now, resend_interval))


def _is_due(group: IncidentGroup, now: float, resend_interval: float) -> bool:
    sent_at, sent = group.root.notified_at, group.root.notified_status
    if group.root.resolved_at is not None:
        return sent_at is not None and sent is not Status.OK
    if group.root.good:
        return False
    if sent_at is None or sent is None:
        return True
    return group.status.rank > sent.rank or now - sent_at >= resend_interval or _has_spread(group, sent_at)


def _has_spread(group: IncidentGroup, sent_at: float) -> bool:
    """Whether the cause, a component of Airflow, has reached another stream since it was sent."""
    since = [each for each in group.consequences if each.resolved_at is None and each.opened_at > sent_at]
    return any(owner(each.stream) != owner(group.root.stream) for each in since)
