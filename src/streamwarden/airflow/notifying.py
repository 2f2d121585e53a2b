"""Sends what is due, through the Airflow notifiers of `config/notifications.yaml` and through Apprise."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow.sdk import BaseNotifier

from streamwarden.config.problems import ConfigFileError, Problem
from streamwarden.config.schema import build
from streamwarden.config.yaml_document import read_document
from streamwarden.health.incident import IncidentPolicy, due_notifications
from streamwarden.services.monitoring.notifiers import (
    AppriseNotifier,
    Delivery,
    Notification,
    NotificationError,
    Send,
    compose,
    deliver,
)
from streamwarden.services.workspace import Workspace
from streamwarden.units import Seconds

FILE: Final = Path("config/notifications.yaml")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowChannel:
    """One Airflow notifier. `kwargs` may hold templates: `{{ notification.title }}`, `{{ notification.body }}`."""

    notifier: str
    kwargs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """`config/notifications.yaml`. Apprise's URLs hold secrets and come from STREAMWARDEN_NOTIFY_URLS alone."""

    airflow: tuple[AirflowChannel, ...] = ()
    resend_interval: Seconds = IncidentPolicy().resend_interval


def load_notifications(project: Path) -> Notifications:
    """The settings; defaults if there is no file. Raises ConfigError."""
    path = project / FILE
    if not path.exists():
        return Notifications()
    document = read_document(path, file=str(FILE))
    settings, problems = build(Notifications, document, reserved=())
    if problems or settings is None:
        raise ConfigFileError(str(FILE), problems)
    for position, channel in enumerate(settings.airflow):
        if not _is_notifier(channel.notifier):
            problem = Problem(
                key=("airflow", position, "notifier"),
                observed=f"{channel.notifier!r} is no notifier that can be imported",
                allowed="the path of a subclass of airflow.sdk.BaseNotifier, such as "
                "airflow.providers.slack.notifications.slack.SlackNotifier",
                next_step="correct the path, or install its provider",
                line=document.lines.get(("airflow", position, "notifier")),
            )
            raise ConfigFileError(str(FILE), [problem])
    return settings


def send_due(space: Workspace, context: Mapping[str, Any], now: float) -> Delivery:
    """Send every notification that is due and not claimed by another process. Raises ConfigError, StoreError."""
    settings = load_notifications(space.project)
    book = space.store.incidents
    waiting = [compose(incident, now) for incident in due_notifications(book, now, settings.resend_interval)]
    if not waiting:
        return Delivery()
    channels = _channels(settings, context)
    if not channels:
        for notification in waiting:
            _log.warning("no channel is configured for: %s", notification.title)
        return Delivery()
    send = fan_out(channels)
    return deliver(waiting, send, book, now=now, resend_interval=settings.resend_interval)


def fan_out(channels: Sequence[tuple[str, Send]]) -> Send:
    """A sender to all `channels`. It fails only if every one of them failed: whoever was told is not told twice."""

    def send(notification: Notification) -> None:
        failures = []
        for name, channel in channels:
            try:
                channel(notification)
            except Exception as error:  # a notifier raises what its service raises
                _log.error("%s did not take %r: %s", name, notification.title, error)
                failures.append(f"{name}: {type(error).__name__}: {error}")
        if len(failures) == len(channels):
            raise NotificationError(
                "; ".join(failures), expected="at least one channel to take the message", where=str(FILE)
            )

    return send


def _channels(settings: Notifications, context: Mapping[str, Any]) -> list[tuple[str, Send]]:
    channels: list[tuple[str, Send]] = [
        (channel.notifier.rpartition(".")[2], _airflow_sender(channel, context)) for channel in settings.airflow
    ]
    apprise = AppriseNotifier.from_environment()
    if apprise is not None:
        channels.append(("Apprise", apprise))
    return channels


def _airflow_sender(channel: AirflowChannel, context: Mapping[str, Any]) -> Callable[[Notification], None]:
    def send(notification: Notification) -> None:
        # A notifier renders its templates in place, so each message needs a new one.
        notifier = _import(channel.notifier)(**channel.kwargs)
        notifier({**context, "notification": notification, "incident": notification.incident})

    return send


def _import(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _is_notifier(path: str) -> bool:
    try:
        found = _import(path)
    except (ImportError, AttributeError, ValueError):
        return False
    return isinstance(found, type) and issubclass(found, BaseNotifier)


class StreamwardenNotifier(BaseNotifier):
    """For `on_failure_callback` of a DAG or task: sends what is due now instead of at the next tick of the health DAG.

    Callbacks may run twice and in several processes; each notification is claimed in the store, so it is sent once.
    """

    def __init__(self, project: str) -> None:
        super().__init__()
        self.project = project

    def notify(self, context: Any) -> None:
        import time

        from streamwarden.airflow.workspaces import workspace

        delivery = send_due(workspace(self.project), context, time.time())
        self.log.info("%d notifications sent, %d failed", len(delivery.sent), len(delivery.failed))
