"""Sends due notifications after a round: for the health DAG, `streamwarden watch`, `check --notify`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.config.notifications import Notifications, load_notifications
from streamwarden.errors import ConfigError
from streamwarden.health.check_relations import CONFIGURATION, EVERYWHERE, is_of_the_run
from streamwarden.health.incidents.mutes import mute_of
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.queries import owner
from streamwarden.services.incidents.incident_keeper import keep
from streamwarden.services.monitoring.rounds import Place, Surroundings
from streamwarden.services.notifying.crashes import RECENT, cured_crashes
from streamwarden.services.notifying.links import stream_links
from streamwarden.services.notifying.messages import Notification, crash_message
from streamwarden.services.notifying.sending import Refusal, SendReport, send_due

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.services.notifying.notifiers import Channel


CHANNEL: Final = "channel_"
"""What the check of a channel's incident begins with; the channel's name follows."""


def usable_settings(project: Path) -> tuple[Notifications, ConfigError | None]:
    """The settings, and the error of their file. If it is broken the defaults apply, so due notifications are still
    sent to the URLs of the environment."""
    try:
        return load_notifications(project, is_notifier=lambda _: True), None
    except ConfigError as error:
        return Notifications(), error


def surroundings(settings: Notifications) -> Surroundings:
    """The surroundings of a round without Airflow, from the settings."""
    return Surroundings(airflow=settings.airflow_url, heartbeat_url=settings.heartbeat_url)


def notify(
    place: Place,
    channels: Sequence[Channel],
    settings: Notifications,
    now: float,
    *,
    airflow: str | None = None,
    events: Iterable[Notification] = (),
    broken: ConfigError | None = None,
    only: Container[str] | None = None,
) -> SendReport:
    """Send due messages, and the crashes that a restart has cured if the settings say so. Raises StoreError.

    Args:
        airflow: URL of Airflow as its users open it, for the links; None: as the settings have it.
        events: further messages that no incident stands for.
        broken: the error of the settings' file; it is part of the report.
        only: the streams and queries whose incidents are sent; None: all incidents, and crashes.
    """
    base = (settings.airflow_url or "" if airflow is None else airflow).rstrip("/")
    keep(place.store, [_settings_verdict(broken, now)], now)
    wanted = settings.crashes and only is None
    crashes = _crashes(place.store, list(place.catalog().streams), now, base) if wanted else ()
    report = send_due(
        place.store,
        channels,
        now,
        resend_interval=settings.resend_interval,
        airflow=base,
        events=[*events, *crashes],
        only=only,
    )
    keep(place.store, channel_verdicts(report, now), now)
    if broken is None:
        return report
    unread = Refusal(channel="Airflow's notifiers", title="every message", reason=str(broken))
    return report + SendReport(refused=(unread,))


def _settings_verdict(broken: ConfigError | None, now: float) -> Verdict:
    return Verdict(
        stream=EVERYWHERE,
        check=CONFIGURATION,
        status=Status.OK if broken is None else Status.WARNING,
        at=now,
        reason="notifications.yaml is valid" if broken is None else f"notifications.yaml is invalid: {broken}",
        advice="" if broken is None else "fix the file; `streamwarden validate` checks it",
    )


def channel_verdicts(report: SendReport, now: float) -> tuple[Verdict, ...]:
    """A channel that refused a message is an incident, which the other channels send. Pure."""
    refused = {refusal.channel: refusal for refusal in report.refused}
    accepted = {channel for channel, _ in report.sent} - set(refused)
    bad = [
        Verdict(
            stream=EVERYWHERE,
            check=CHANNEL + name,
            status=Status.WARNING,
            at=now,
            reason=f"the channel {name} did not accept a message: {refusal.reason}",
            advice=f"correct it, then run `streamwarden notify test --channel {name}`",
        )
        for name, refusal in refused.items()
    ]
    good = [
        Verdict(stream=EVERYWHERE, check=CHANNEL + name, status=Status.OK, at=now, reason="it accepts messages")
        for name in accepted
    ]
    return (*bad, *good)


def _crashes(store: Store, streams: Sequence[str], now: float, airflow: str) -> Iterator[Notification]:
    """Of the streams without an open incident: while one is open, something may have to be done.

    A crash during a mute of the stream is no news when the mute has ended.
    """
    alarmed = {owner(incident.stream) for incident in store.incidents.alarming() if is_of_the_run(incident.check)}
    calm = [name for name in streams if name not in alarmed]
    if not calm:
        return
    mutes = store.mutes.since(now - RECENT)
    for stream, history in store.drivers.histories(calm, now - RECENT).items():
        heard = (crash for crash in cured_crashes(history, now) if mute_of(stream, mutes, crash.restarted_at) is None)
        for crash in heard:
            yield crash_message(crash, stream_links(airflow, stream, crash.driver))
