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


def due_incidents(repository: IncidentRepository, now: float, resend_interval: float) -> tuple[IncidentGroup, ...]:
    """All root incidents whose notification is due; of resolved ones, those of the last day. Raises StoreError.

    An open incident of a stream that should be stopped is never due.
    """
    ended = repository.unannounced(now - OLD_NEWS)  # first, so that an incident that ends meanwhile is not in both
    announced = [IncidentGroup(each, tuple(repository.consequences(each.incident_id))) for each in ended]
    roots = [each for each in grouped(repository.alarming()) if each.root.is_root]
    return due((*announced, *roots), now, resend_interval)


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
