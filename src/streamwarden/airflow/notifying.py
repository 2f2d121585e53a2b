"""Sends the notifications that are due, through the Airflow notifiers of `config/notifications.yaml` and Apprise."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from streamwarden.config.notifications import FILE, AirflowChannel, Notifications, load_notifications
from streamwarden.services.monitoring.notifiers import (
    AppriseNotifier,
    Notification,
    NotificationDelivery,
    NotificationError,
    Send,
    deliver,
    due_notifications,
)
from streamwarden.services.workspace import Workspace

_log = logging.getLogger(__name__)


def send_due(space: Workspace, context: Mapping[str, Any], now: float) -> NotificationDelivery:
    """Send every notification that is due and not claimed by another process. Raises ConfigError, StoreError."""
    settings = load_notifications(space.project, is_notifier=_is_notifier)
    incidents = space.store.incidents
    waiting = due_notifications(incidents, now, settings.resend_interval)
    channels = _channels(settings, context) if waiting else []
    if not channels:
        for notification in waiting:
            _log.warning("no channel is configured for: %s", notification.title)
        return NotificationDelivery()
    return deliver(waiting, fan_out(channels), incidents, now=now, resend_interval=settings.resend_interval)


def fan_out(channels: Sequence[tuple[str, Send]]) -> Send:
    """A sender to all `channels`. It fails only if all of them failed, so that none sends a message twice."""

    def send(notification: Notification) -> None:
        failures = []
        for name, channel in channels:
            try:
                channel(notification)
            except Exception as error:  # a notifier raises what its service raises
                _log.error("%s did not accept %r: %s", name, notification.title, error)
                failures.append(f"{name}: {type(error).__name__}: {error}")
        if len(failures) == len(channels):
            raise NotificationError(
                "; ".join(failures), expected="at least one channel to accept the message", where=str(FILE)
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
    """For `on_failure_callback` of a DAG or task: sends notifications now instead of in the next run of the health DAG.

    Airflow may run a callback twice and in several processes. Each notification is claimed in the store and sent once.
    """

    def __init__(self, project: str) -> None:
        super().__init__()
        self.project = project

    def notify(self, context: Any) -> None:
        import time

        from streamwarden.airflow.workspaces import workspace

        delivery = send_due(workspace(self.project), context, time.time())
        self.log.info("%d notifications sent, %d failed", len(delivery.sent), len(delivery.failed))
