"""`config/notifications.yaml`: how often an open incident is sent again, and through which Airflow notifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from streamwarden.config.schema import parse, refusal
from streamwarden.config.yaml_document import read_document
from streamwarden.health.incident import IncidentPolicy
from streamwarden.problems import Problem
from streamwarden.units import Seconds

FILE: Final = Path("config/notifications.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowChannel:
    """One Airflow notifier."""

    notifier: str
    """path of a subclass of `airflow.sdk.BaseNotifier`"""
    kwargs: dict[str, str] = field(default_factory=dict)
    """its arguments; they may hold templates such as `{{ notification.title }}` and `{{ notification.body }}`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """The settings. Apprise's URLs hold secrets and come from STREAMWARDEN_NOTIFY_URLS alone."""

    airflow: tuple[AirflowChannel, ...] = ()
    """notifiers of Airflow that the health DAG sends through; the command line sends through Apprise alone"""
    resend_interval: Seconds = IncidentPolicy().resend_interval
    """an incident that is still open is sent again after this long"""


def load_notifications(project: Path, *, is_notifier: Callable[[str], bool] = lambda _: True) -> Notifications:
    """Read the settings of `project`; the defaults if there is no file. Raises ConfigError.

    Args:
        is_notifier: decides whether a path names an Airflow notifier. Only Airflow's processes can decide that.
    """
    path = project / FILE
    if not path.exists():
        return Notifications()
    document = read_document(path, file=str(FILE))
    settings = parse(Notifications, document)
    unusable = [
        Problem(
            key=("airflow", position, "notifier"),
            observed=f"{channel.notifier!r} is not a notifier that can be imported",
            allowed="the path of a subclass of airflow.sdk.BaseNotifier, such as "
            "airflow.providers.slack.notifications.slack.SlackNotifier",
            next_step="correct the path, or install its provider",
        )
        for position, channel in enumerate(settings.airflow)
        if not is_notifier(channel.notifier)
    ]
    if unusable:
        raise refusal(document, unusable)
    return settings
