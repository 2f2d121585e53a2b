"""Notifications about incidents. Each is sent once, by the process that claims it, by Apprise or another sender."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.health.incident import Incident, IncidentRepository, due_incidents
from streamwarden.health.verdict import Status
from streamwarden.redaction import redacted_text
from streamwarden.units import format_duration

URLS_VARIABLE: Final = "STREAMWARDEN_NOTIFY_URLS"
"""Apprise URLs, separated by spaces, commas or line ends. They hold secrets: no message or log line shows them."""

RETRY: Final = 60.0
"""Seconds after which a notification that could not be sent is due again."""

_log = logging.getLogger(__name__)


class NotificationError(StreamwardenError):
    """A notification could not be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """Plain text about one incident, for any channel."""

    title: str
    body: str
    incident: Incident


Send = Callable[[Notification], None]
"""Sends one notification or raises StreamwardenError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationDelivery:
    """The result of sending. `taken`: another process sends or sent them; `failed`: each with the reason."""

    sent: tuple[Notification, ...] = ()
    taken: tuple[Notification, ...] = ()
    failed: tuple[tuple[Notification, str], ...] = ()


def compose(incident: Incident, now: float) -> Notification:
    """The text: which stream, which problem against which limit, since when, what to do, which commands show more."""
    check = incident.check.replace("_", " ")
    if incident.resolved_at is not None:
        lasted = format_duration(max(0.0, incident.resolved_at - incident.opened_at))
        title = f"RESOLVED: {incident.stream}: {check}"
        lines = [
            f"The incident of {incident.stream} is resolved: {incident.reason}",
            f"It lasted {lasted}, from {_moment(incident.opened_at)} to {_moment(incident.resolved_at)}; "
            f"its worst status was {incident.peak}.",
        ]
    else:
        title = f"{incident.status}: {incident.stream}: {check}"
        lines = [
            f"{incident.stream}: {incident.reason}",
            f"Open for {format_duration(max(0.0, now - incident.opened_at))}, since {_moment(incident.opened_at)}"
            + (f"; its worst status was {incident.peak}." if incident.peak is not incident.status else "."),
        ]
        if incident.advice:
            lines.append(f"What to do: {incident.advice}")
        lines.append(f"Details: streamwarden check {incident.stream}; streamwarden status {incident.stream}")
    lines.append(f"Incident {incident.incident_id}")
    return Notification(title=title, body=redacted_text("\n".join(lines)), incident=incident)


def due_notifications(
    incidents: IncidentRepository, now: float, resend_interval: float, streams: Container[str] | None = None
) -> list[Notification]:
    """Compose what is due of all open incidents and recent ends, or of those of `streams`. Raises StoreError."""
    due = due_incidents(incidents, now, resend_interval)
    return [compose(incident, now) for incident in due if streams is None or incident.stream in streams]


def deliver(
    due: Iterable[Notification], send: Send, repository: IncidentRepository, *, now: float, resend_interval: float
) -> NotificationDelivery:
    """Send the notifications that are due, each by exactly one process: the one whose claim the store grants.

    A claim precedes the send, so a process that dies between the two delays the message by one interval, and never
    sends it twice. A send that fails returns the claim: the notification is due again in a minute. Raises StoreError.
    """
    sent: list[Notification] = []
    taken: list[Notification] = []
    failed: list[tuple[Notification, str]] = []
    for notification in due:
        incident = notification.incident
        if not repository.claim_notification(incident, before=incident.notified_at, now=now):
            taken.append(notification)
            continue
        try:
            send(notification)
        except StreamwardenError as error:
            failed.append((notification, str(error)))
            _log.error("notification %r was not sent: %s", notification.title, error)
            claimed = replace(incident, status=incident.notified_status or incident.status)
            repository.claim_notification(claimed, before=now, now=now - resend_interval + RETRY)
        else:
            sent.append(notification)
    return NotificationDelivery(sent=tuple(sent), taken=tuple(taken), failed=tuple(failed))


class AppriseNotifier:
    """Sends through Apprise (mail, chat, pagers, webhooks).

    Args:
        urls: Apprise URLs. Raises ConfigError, without showing the URL, for one that Apprise does not understand.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        import apprise

        self._apprise = apprise.Apprise()
        for position, url in enumerate(urls, start=1):
            with _silent():
                understood = self._apprise.add(url)
            if not understood:
                raise ConfigError(
                    f"URL {position} of {len(urls)} is not a URL that Apprise understands",
                    expected="a URL such as mailto://, slack://, pagerduty:// or json://",
                    where=URLS_VARIABLE,
                    next_step="correct it; https://appriseit.com/services/ lists the forms",
                )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> AppriseNotifier | None:
        """The notifier for STREAMWARDEN_NOTIFY_URLS; None if it is not set. Raises ConfigError."""
        urls = (os.environ if environ is None else environ).get(URLS_VARIABLE, "").replace(",", " ").split()
        return cls(urls) if urls else None

    def __repr__(self) -> str:
        return f"AppriseNotifier({len(self._apprise)} URLs)"

    def __call__(self, notification: Notification) -> None:
        """Send to every URL. Raises NotificationError if one of them did not accept it."""
        import apprise

        kinds = {
            Status.CRITICAL: apprise.NotifyType.FAILURE,
            Status.WARNING: apprise.NotifyType.WARNING,
            Status.OK: apprise.NotifyType.SUCCESS,
        }
        kind = kinds.get(notification.incident.status, apprise.NotifyType.INFO)
        with _silent():
            done = self._apprise.notify(title=notification.title, body=notification.body, notify_type=kind)
        if not done:
            raise NotificationError(
                f"at least one of {len(self._apprise)} URLs did not accept the message",
                expected="every URL to answer with success",
                where=URLS_VARIABLE,
                next_step="test each URL with the command line tool `apprise`",
            )


@contextmanager
def _silent() -> Iterator[None]:
    """Apprise's own log lines may hold hosts, users and URLs."""
    logger = logging.getLogger("apprise")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
