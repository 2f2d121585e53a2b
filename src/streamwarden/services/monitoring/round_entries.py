"""Summarises a round: one entry for all healthy streams, one for each stream that is not healthy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamwarden.errors import ConfigError
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner
from streamwarden.services.monitoring.health_monitor import Evaluation, StreamHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The summary of one stream, or of several that are alike.

    Args:
        title: the stream's name, or how many streams there are.
        lines: its verdicts, the worst first; of several streams, their names.
        critical: the lines that are CRITICAL.
        judged: False for streams that should not run: no verdict of theirs is shown as good or bad.
        stream: the stream or query; empty of several.
    """

    title: str
    status: Status
    lines: tuple[str, ...]
    critical: tuple[str, ...] = ()
    judged: bool = True
    stream: str = ""


def entries_of(evaluation: Evaluation, broken: Mapping[str, ConfigError], idle: Mapping[str, str]) -> tuple[Entry, ...]:
    """One entry for each stream, each query of several, and each broken file. Pure.

    Args:
        broken: the errors of the files that cannot be used, by their stems.
        idle: the streams that should not run, each with the reason.
    """
    judged = [_entry(health, idle.get(owner(health.stream))) for health in evaluation.streams.values()]
    unusable = [
        Entry(title=name, status=Status.UNKNOWN, lines=(f"UNKNOWN configuration: {error}",), stream=name)
        for name, error in broken.items()
    ]
    return (*judged, *unusable)


def fold(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The worst first, then by name. All healthy streams share one entry; those that should not run share another."""
    ordered = sorted(entries, key=lambda entry: (-entry.status.rank, entry.title))
    idle = [entry for entry in ordered if not entry.judged]
    healthy = [entry for entry in ordered if entry.judged and entry.status is Status.OK]
    shown = [entry for entry in ordered if entry.judged and entry.status is not Status.OK]
    if healthy:
        names = tuple(entry.title for entry in healthy)
        shown.append(Entry(title=_counted(healthy, "healthy"), status=Status.OK, lines=names))
    if idle:
        lines = tuple(line for entry in idle for line in entry.lines)
        shown.append(Entry(title=_counted(idle, "not judged"), status=Status.UNKNOWN, lines=lines, judged=False))
    return tuple(shown)


def _counted(entries: list[Entry], what: str) -> str:
    return f"{len(entries)} {'stream' if len(entries) == 1 else 'streams'}: {what}"


def _entry(health: StreamHealth, idle: str | None) -> Entry:
    """An alarm is shown even for a stream that should not run."""
    if idle is not None and health.status in (Status.OK, Status.UNKNOWN):
        lines = (f"{health.stream}: {idle}",)
        return Entry(title=health.stream, status=Status.UNKNOWN, lines=lines, judged=False, stream=health.stream)
    ordered = sorted(health.verdicts, key=lambda verdict: -verdict.status.rank)
    worst_first = [
        f"{verdict.status} {verdict.check}: {verdict.reason}" + (f" Advice: {verdict.advice}" if verdict.advice else "")
        for verdict in ordered
    ]
    critical = [line for line, entry in zip(worst_first, ordered, strict=True) if entry.status is Status.CRITICAL]
    return Entry(
        title=health.stream,
        status=health.status,
        lines=(*worst_first, *health.problems),
        critical=tuple(critical),
        stream=health.stream,
    )
