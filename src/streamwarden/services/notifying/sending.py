"""Sends due messages: each to each channel, exactly once, even if other processes send at the same time.

Each channel has a separate record of its messages. One that refuses a message keeps no other from it, and is tried
again in the next round.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from streamwarden.errors import StreamwardenError
from streamwarden.health.check_relations import DRILL
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.health.incidents.delivery import Delivery
from streamwarden.health.incidents.handling import Handling
from streamwarden.health.incidents.mutes import mute_of
from streamwarden.health.incidents.notification_due import due, notifiable
from streamwarden.health.verdict import Status
from streamwarden.services.incidents.handling import handling
from streamwarden.services.notifying.links import links_of
from streamwarden.services.notifying.messages import Notification, compose

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.incidents.incident import Incident
    from streamwarden.services.notifying.notifiers import Channel

DRILLS_AGAIN: Final = 86400.0
"""Least number of seconds after which the open incident of a drill is sent again: it is open until the next run."""

_GIVE_UP: Final = 3
"""Refusals in a row after which a channel has to wait for the next round: it is down, and each try takes seconds."""

_URL: Final = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://\S+", re.IGNORECASE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A message that a channel did not accept."""

    channel: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """The result of sending. `taken`: how many messages other processes send or sent."""

    sent: tuple[tuple[str, Notification], ...] = ()
    taken: int = 0
    refused: tuple[Refusal, ...] = ()

    def __add__(self, other: SendReport) -> SendReport:
        return SendReport(
            sent=self.sent + other.sent, taken=self.taken + other.taken, refused=self.refused + other.refused
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A message that is due on one channel. It is composed when it is sent."""

    delivery: Delivery
    status: Status
    compose: Callable[[], Notification]


def send_due(
    store: Store,
    channels: Iterable[Channel],
    now: float,
    *,
    resend_interval: float,
    airflow: str = "",
    events: Sequence[Notification] = (),
    only: Container[str] | None = None,
) -> SendReport:
    """Send every due message that is not muted to every channel. Raises StoreError.

    Args:
        now: Unix seconds.
        airflow: URL of Airflow for the links; empty if it is not known.
        events: messages that no incident stands for; each is sent once.
        only: the streams and queries whose incidents are sent; None: all incidents.
    """
    handled = handling(store, now)
    groups = [group for group in notifiable(store.incidents, now, handled) if only is None or group.root.stream in only]
    audible = [event for event in events if mute_of(event.stream, handled.mutes, now) is None]
    report = SendReport()
    for channel in channels:
        deliveries = store.deliveries.of(channel.name)
        waiting = [
            *_incidents(groups, deliveries, channel.name, store, handled, now, resend_interval, airflow),
            *_events(audible, deliveries, channel.name),
        ]
        ready = [entry for entry in waiting if not entry.delivery.must_wait(now)]
        ready.sort(key=lambda entry: entry.delivery.failed_at is not None)  # refused messages come last
        report += _send(channel, ready, store, now)
    return report


def _incidents(
    groups: Iterable[IncidentGroup],
    deliveries: Mapping[str, Delivery],
    channel: str,
    store: Store,
    handled: Handling,
    now: float,
    resend_interval: float,
    airflow: str,
) -> Iterator[_Waiting]:
    for group in groups:
        delivery = deliveries.get(group.root.incident_id) or Delivery(subject=group.root.incident_id, channel=channel)
        sent = _as_seen_by(delivery, group)
        if due([sent], now, _interval(group.root, resend_interval), handled):
            status = Status.OK if group.root.resolved_at is not None else group.status
            text = partial(_composed, store, sent, handled, now, airflow)
            yield _Waiting(delivery=delivery, status=status, compose=text)


def _as_seen_by(delivery: Delivery, group: IncidentGroup) -> IncidentGroup:
    """The group as this channel was notified of it."""
    root = replace(group.root, notified_at=delivery.sent_at, notified_status=delivery.sent_status)
    return replace(group, root=root)


def _interval(incident: Incident, resend_interval: float) -> float:
    return max(resend_interval, DRILLS_AGAIN) if incident.check.startswith(DRILL) else resend_interval


def _composed(store: Store, group: IncidentGroup, handled: Handling, now: float, airflow: str) -> Notification:
    return compose(group, now, links_of(store, airflow, group.root), handled)


def _events(events: Iterable[Notification], deliveries: Mapping[str, Delivery], channel: str) -> Iterator[_Waiting]:
    for event in events:
        delivery = deliveries.get(event.subject) or Delivery(subject=event.subject, channel=channel)
        if delivery.sent_at is None:
            yield _Waiting(delivery=delivery, status=event.status, compose=partial(_same, event))


def _same(event: Notification) -> Notification:
    return event


def _send(channel: Channel, ready: Iterable[_Waiting], store: Store, now: float) -> SendReport:
    """Send to one channel. A claim precedes each message: a process that dies between the two delays the message by one
    resend interval, and sends it never twice."""
    report, in_a_row = SendReport(), 0
    for entry in ready:
        if in_a_row == _GIVE_UP:
            break
        message = entry.compose()
        claimed = store.deliveries.claim(entry.delivery, entry.status, now)
        if claimed is None:
            report += SendReport(taken=1)
            continue
        try:
            channel.send(message)
        except Exception as error:  # a notifier raises the errors of its service
            in_a_row += 1
            store.deliveries.give_back(claimed, entry.delivery, now)
            refusal = Refusal(channel=channel.name, title=message.title, reason=refusal_reason(error))
            _log.error("%s did not accept %r: %s", channel.name, message.title, refusal.reason)
            report += SendReport(refused=(refusal,))
        else:
            in_a_row = 0
            report += SendReport(sent=((channel.name, message),))
    return report


def refusal_reason(error: Exception) -> str:
    """The reason of a channel's refusal. A foreign error is shown without URLs: those of web hooks are secrets."""
    if isinstance(error, StreamwardenError):
        return str(error)
    return f"{type(error).__name__}: {_URL.sub('(URL)', str(error))}"
