"""The channels through which messages are sent: one for each URL of Apprise, and one for each notifier of Airflow."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streamwarden.config.notifications import FILE, AirflowChannel, Notifications, imported
from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.health.verdict import Status
from streamwarden.services.notifying.messages import Notification

URLS_VARIABLE: Final = "STREAMWARDEN_NOTIFY_URLS"
"""Apprise URLs, separated by spaces, commas or line ends. They hold secrets: no message or log line shows them."""

_SCHEME: Final = re.compile(r"([a-z][a-z0-9]*)://")

Send = Callable[[Notification], None]
"""Sends one message, or raises."""


class NotificationError(StreamwardenError):
    """A message could not be sent."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A receiver of messages. `name` is in reports and in the record of messages; it holds no secret."""

    name: str
    send: Send


def apprise_channels(environ: Mapping[str, str] | None = None) -> tuple[Channel, ...]:
    """One channel for each URL in STREAMWARDEN_NOTIFY_URLS, named after its kind and its position: `slack-1`."""
    urls = (os.environ if environ is None else environ).get(URLS_VARIABLE, "").replace(",", " ").split()
    return tuple(
        Channel(f"{_kind(url)}-{position}", AppriseNotifier(url, position=position, of=len(urls)))
        for position, url in enumerate(urls, start=1)
    )


def _kind(url: str) -> str:
    scheme = _SCHEME.match(url)
    return scheme[1] if scheme else "url"


def airflow_channels(settings: Notifications, context: Mapping[str, Any]) -> tuple[Channel, ...]:
    """One channel for each notifier of `config/notifications.yaml`. `context`: a task's context; the notifiers'
    templates may use it."""
    return tuple(
        Channel(notifier.shown, partial(_send_through_airflow, notifier, context)) for notifier in settings.airflow
    )


def _send_through_airflow(channel: AirflowChannel, context: Mapping[str, Any], notification: Notification) -> None:
    """A notifier renders its templates in place, so each message needs a new one."""
    kind: Any = imported(channel.notifier)
    kind(**channel.kwargs)({**context, "notification": notification, "incident": notification.incident})


def require_channel(channels: Sequence[Channel], name: str) -> Channel:
    """The channel of this name. Raises ConfigError with the names that there are."""
    for channel in channels:
        if channel.name == name:
            return channel
    raise ConfigError(
        f"there is no channel {name!r}",
        expected=f"one of: {', '.join(candidate.name for candidate in channels)}",
        where=f"{URLS_VARIABLE} and {FILE}",
        next_step="name one of these",
    )


def no_channel() -> ConfigError:
    """The error if a message is due and no channel is configured."""
    return ConfigError(
        "no channel is configured", expected="Apprise URLs", where=URLS_VARIABLE, next_step=f"set {URLS_VARIABLE}"
    )


class AppriseNotifier:
    """Sends through Apprise (mail, chat, pagers, web hooks) to one URL.

    Args:
        url: an Apprise URL. It is read when the first message is sent, so a wrong one disturbs no other channel.
        position: which URL of STREAMWARDEN_NOTIFY_URLS it is, from 1; `of`: how many there are. Messages name it so.
    """

    def __init__(self, url: str, *, position: int = 1, of: int = 1) -> None:
        self._url = url
        self._shown = f"URL {position} of {of}"

    def __repr__(self) -> str:
        return f"AppriseNotifier({self._shown})"

    def __call__(self, notification: Notification) -> None:
        """Send. Raises ConfigError for a URL that Apprise does not understand, NotificationError for a refusal."""
        import apprise

        kinds = {
            Status.CRITICAL: apprise.NotifyType.FAILURE,
            Status.WARNING: apprise.NotifyType.WARNING,
            Status.OK: apprise.NotifyType.SUCCESS,
        }
        kind = kinds.get(notification.status, apprise.NotifyType.INFO)
        sender = apprise.Apprise()
        with _silent():
            if not sender.add(self._url):
                raise self._not_understood()
            if sender.notify(title=notification.title, body=notification.body, notify_type=kind):
                return
        raise NotificationError(
            f"{self._shown} did not accept the message",
            expected="an answer of success",
            where=URLS_VARIABLE,
            next_step="test it with `streamwarden notify test`, or the URL with the command line tool `apprise`",
        )

    def _not_understood(self) -> ConfigError:
        return ConfigError(
            f"{self._shown} is not a URL that Apprise understands",
            expected="a URL such as mailto://, slack://, pagerduty:// or json://",
            where=URLS_VARIABLE,
            next_step="correct it; https://appriseit.com/services/ lists the forms",
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
