"""`config/notifications.yaml`: through which channels incidents are sent, how often, and who watches the evaluation."""

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from streamwarden.config.schema import parse, refusal
from streamwarden.config.yaml_document import read_document
from streamwarden.health.incidents.incident import IncidentPolicy
from streamwarden.problems import Problem, show
from streamwarden.units import Seconds, format_duration

FILE: Final = Path("config/notifications.yaml")

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""The name of a channel is in incidents and in the record of what was sent."""

SHORTEST: Final[Seconds] = 60.0
"""The least `resend_interval`: the streams are judged each minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowChannel:
    """One Airflow notifier."""

    notifier: str
    """path of a subclass of `airflow.sdk.BaseNotifier`"""
    name: str = ""
    """what reports and `notify test --channel` call it; empty: the name of its class"""
    kwargs: dict[str, str] = field(default_factory=dict)
    """its arguments; they may hold templates such as `{{ notification.title }}` and `{{ notification.body }}`"""

    @property
    def shown(self) -> str:
        return self.name or self.notifier.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """The settings. Apprise's URLs hold secrets and come from STREAMWARDEN_NOTIFY_URLS alone."""

    airflow: tuple[AirflowChannel, ...] = ()
    """notifiers of Airflow that the health DAG sends through; the command line sends through Apprise alone"""
    resend_interval: Seconds = IncidentPolicy().resend_interval
    """an incident that is still open is sent again after this long"""
    crashes: bool = False
    """whether a crash that a restart has cured is sent too, once for each driver that crashed"""
    heartbeat_url: str | None = None
    """a dead man's switch: this URL is requested (GET) after each completed evaluation, and not after one that failed.
    Its service alerts you when the requests stop"""
    airflow_url: str | None = None
    """where `streamwarden watch` finds Airflow's API server, to check that its scheduler, its triggerer and its DAG
    processor run; also the base of the links in its messages. The health DAG knows this from Airflow's configuration"""


def importable(path: str) -> bool:
    """Whether `path` names a class that can be imported and used like a notifier of Airflow."""
    try:
        notifier = imported(path)
    except Exception:  # importing a module runs it, and it raises what it likes
        return False
    return isinstance(notifier, type) and callable(getattr(notifier, "notify", None))


def imported(path: str) -> object:
    """The object that the dotted `path` names. Raises ImportError, AttributeError, ValueError."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def load_notifications(project: Path, *, is_notifier: Callable[[str], bool] = importable) -> Notifications:
    """Read the settings of `project`; the defaults if there is no file. Raises ConfigError.

    Args:
        is_notifier: decides whether a path names a notifier. A process that sends accepts every path, because a
            notifier that cannot be imported must not keep the other channels from sending.
    """
    path = project / FILE
    if not path.exists() and not path.is_symlink():
        return Notifications()
    document = read_document(path, file=str(FILE))
    settings = parse(Notifications, document)
    problems = [
        *_of_channels(settings, is_notifier),
        *_too_often(settings),
        *_not_http(settings),
    ]
    if problems:
        raise refusal(document, problems)
    return settings


def _of_channels(settings: Notifications, is_notifier: Callable[[str], bool]) -> Iterator[Problem]:
    """Channels are recorded by their names: two of one name would hide each other's messages."""
    count = Counter(channel.shown for channel in settings.airflow)
    for position, channel in enumerate(settings.airflow):
        name = ("airflow", position, "name")
        if channel.name and not NAME.fullmatch(channel.name):
            yield Problem(key=name, observed=show(channel.name), allowed=f"a name that matches {NAME.pattern}")
        if not is_notifier(channel.notifier):
            yield Problem(
                key=("airflow", position, "notifier"),
                observed=f"{channel.notifier!r} is not a notifier that can be imported",
                allowed="the path of a subclass of airflow.sdk.BaseNotifier, such as "
                "airflow.providers.slack.notifications.slack.SlackNotifier",
                next_step="correct the path, or install its provider",
            )
        if count[channel.shown] > 1:
            yield Problem(
                key=name,
                observed=f"{count[channel.shown]} channels have the name {channel.shown!r}",
                allowed="a different name for each channel",
                next_step="add `name: …` to each of them",
            )


def _too_often(settings: Notifications) -> Iterator[Problem]:
    if settings.resend_interval < SHORTEST:
        shown = format_duration(settings.resend_interval)
        yield Problem(key=("resend_interval",), observed=shown, allowed=f"at least {format_duration(SHORTEST)}")


def _not_http(settings: Notifications) -> Iterator[Problem]:
    """The message does not show the value: a URL may hold a secret."""
    for key, value in (("heartbeat_url", settings.heartbeat_url), ("airflow_url", settings.airflow_url)):
        if value is not None and not _is_http(value):
            yield Problem(key=(key,), observed="the value is not an HTTP URL", allowed="http://HOST… or https://HOST…")


def _is_http(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an address, a port that is not a number
        return False
