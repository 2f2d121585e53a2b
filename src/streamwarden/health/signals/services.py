"""The services that a stream needs, and their outages: from single connection attempts to how long each outage lasted.

Each evaluation tries to reach every service once and stores the result as a measurement, so an outage is read from the
history. Outages that are older than a window's measurements pass from verdict to verdict in the evidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.health.signals.series import measurements_of
from streamwarden.health.window import Measurement, Service, Window
from streamwarden.stream.spec import StreamSpec

GAP: Final = 3600.0
"""Seconds: failed attempts that are further apart do not show an outage between them. Evaluations run each minute, or
as often as a scheduler runs `streamwarden check`."""
REMEMBERED: Final = 86400.0
"""Seconds for which the evidence keeps an outage: a batch that it delayed is no longer judged then."""
MOST: Final = 50
"""Outages of one service in the evidence, at most; the newest are kept."""

CHECK_OF: Final = {Service.BROKER: "broker_unreachable", Service.DATABASE: "database_unreachable"}
"""The check that judges a service. Its verdict remembers the outages."""


@dataclass(frozen=True, slots=True)
class Need:
    """A service by the name of the connection to it."""

    service: Service
    connection: str


@dataclass(frozen=True, slots=True)
class Outage:
    """From the first failed attempt to the last one of a row without a success in between, Unix seconds.

    The service was unavailable for longer on either side, by less than the time between two evaluations.
    """

    source: str
    since: float
    until: float


def needs(spec: StreamSpec) -> tuple[Need, ...]:
    """The services that the stream reads from and writes to, each once."""
    connections = ((spec.source.SERVICE, spec.source.connection), (spec.sink.SERVICE, spec.sink.connection))
    return tuple(dict.fromkeys(Need(Service(service), name) for service, name in connections if service and name))


def needs_network(spec: StreamSpec) -> bool:
    """Whether a probe of the stream waits for a service or a storage of the network, as far as its file says."""
    folders = (spec.checkpoint, *spec.source.folders, spec.sink.path, spec.savepoints.folder, spec.data_url)
    return bool(needs(spec)) or any("://" in folder for folder in folders if folder)


def attempts(window: Window) -> list[Measurement]:
    """This evaluation's attempts to reach the stream's services, without those that say nothing about the service: an
    outage is read from their history."""
    return [
        Measurement(
            stream=window.spec.name,
            name=answer.service.measurement,
            at=window.now,
            value=float(answer.reached),
            unit="answers",
            source=answer.source,
        )
        for answer in window.answers
        if answer.reached is not None
    ]


def outages(window: Window, service: Service) -> tuple[Outage, ...]:
    """The outages of the last day, oldest first, one that still lasts included."""
    key = f"outages of {service}"
    if key not in window.derived:
        window.derived[key] = _outages(window, service)
    cached: tuple[Outage, ...] = window.derived[key]
    return cached


def evidence_of(window: Window, service: Service) -> dict[str, object]:
    """The history that passes from verdict to verdict: the outages, and when each source last answered."""
    kept = outages(window, service)[-MOST:]
    answered: dict[str, float] = {}
    for source, at in _answered(window, service):
        answered[source] = max(at, answered.get(source, at))
    return {"outages": [[outage.source, outage.since, outage.until] for outage in kept], "answered": answered}


def _outages(window: Window, service: Service) -> tuple[Outage, ...]:
    failed = [(attempt.source, attempt.at) for attempt in _attempts(window, service) if not attempt.value]
    remembered = [outage for outage in _remembered(window, service) if outage.until >= window.now - REMEMBERED]
    successes = _answered(window, service)
    periods: list[Outage] = []
    for source in dict.fromkeys([*(outage.source for outage in remembered), *(name for name, _ in failed)]):
        periods += _joined(
            source,
            [outage for outage in remembered if outage.source == source],
            sorted(at for name, at in failed if name == source),
            [at for name, at in successes if name == source],
        )
    return tuple(sorted(periods, key=lambda outage: outage.since))


def _attempts(window: Window, service: Service) -> list[Measurement]:
    """Those of the window, and those of this evaluation."""
    name = service.measurement
    return [*measurements_of(window, name), *(sample for sample in attempts(window) if sample.name == name)]


def _answered(window: Window, service: Service) -> list[tuple[str, float]]:
    """(source, time) of each known success."""
    before = window.previous.get(CHECK_OF[service])
    answered = before.evidence.get("answered") if before is not None else None
    remembered = answered.items() if isinstance(answered, Mapping) else ()
    return [*remembered, *((attempt.source, attempt.at) for attempt in _attempts(window, service) if attempt.value)]


def _joined(source: str, known: Sequence[Outage], failed: Sequence[float], successes: Sequence[float]) -> list[Outage]:
    """The known outages, and consecutive failures as one outage: no success and no long gap is between them."""
    joined = sorted(known, key=lambda outage: outage.since)
    for at in failed:
        if any(outage.since <= at <= outage.until for outage in joined):
            continue
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.until < at <= before.until + GAP
            and not any(before.until < success < at for success in successes)
        ):
            joined[-1] = Outage(source, before.since, at)
        else:
            joined.append(Outage(source, at, at))
    return joined


def _remembered(window: Window, service: Service) -> list[Outage]:
    before = window.previous.get(CHECK_OF[service])
    if before is None:
        return []
    try:
        return [Outage(*outage) for outage in before.evidence.get("outages", ())]  # type: ignore[attr-defined]
    except TypeError:  # written by another version of this check
        return []
