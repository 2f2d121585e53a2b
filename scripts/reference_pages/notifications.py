"""The reference of `config/notifications.yaml`, from the types that validate it."""

from __future__ import annotations

from typing import Final

from reference_pages.fields import keys, table
from streamwarden.config.notifications import AirflowChannel, Notifications
from streamwarden.health.incidents.delivery import RETRY
from streamwarden.services.notifying.notifiers import URLS_VARIABLE
from streamwarden.units import format_duration

_HEAD: Final = f"""\
# Notifications

The keys of `config/notifications.yaml`, which is optional. [how-to/notifications.md](../how-to/notifications.md) shows
how to set up mail, Slack, PagerDuty and a web hook, and what each message contains.

Apprise delivers to the URLs in `{URLS_VARIABLE}`, separated by spaces, commas or line ends. They hold secrets, so they
are not in the file. The channels of Apprise have the names `KIND-POSITION`: the first URL `slack://…` is `slack-1`.

Each message is sent once to each channel, however many processes send. A channel that refuses a message is tried again
in the next evaluation, but not before {format_duration(RETRY)} have passed.

"""


def page() -> str:
    """The whole page, in Markdown."""
    rows = [
        key
        for outer in keys(Notifications)
        for key in ([outer, *keys(AirflowChannel, prefix="airflow[].")] if outer.name == "airflow" else [outer])
    ]
    return _HEAD + table(rows)
