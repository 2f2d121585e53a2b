"""The reference of `config/notifications.yaml`, from the types that validate it."""

from __future__ import annotations

from typing import Final

from streamwarden.config.notifications import AirflowChannel, Notifications
from streamwarden.reference.fields import keys, table
from streamwarden.services.monitoring.notifiers import RETRY, URLS_VARIABLE
from streamwarden.units import format_duration

_HEAD: Final = f"""\
# Notifications

The health DAG sends a message when an incident opens, when it gets worse, each `resend_interval` while it is open, and
when it is resolved. `streamwarden check --notify` does the same from a shell. Each message is sent once, however many
processes send; a message that no channel accepted is due again after {format_duration(RETRY)}.

Apprise delivers to the URLs in `{URLS_VARIABLE}`, separated by spaces, commas or line ends. They hold secrets, so they
are not in a file. `config/notifications.yaml` is optional and holds the rest:

    resend_interval: 30m
    airflow:
      - notifier: airflow.providers.slack.notifications.slack.SlackNotifier
        kwargs: {{text: "{{{{ notification.title }}}}", channel: "#streams"}}

"""


def page() -> str:
    """The whole page, in Markdown."""
    rows = [
        key
        for outer in keys(Notifications)
        for key in ([outer, *keys(AirflowChannel, prefix="airflow[].")] if outer.name == "airflow" else [outer])
    ]
    return _HEAD + table(rows)
