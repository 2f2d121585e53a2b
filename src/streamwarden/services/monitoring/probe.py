"""Probes a stream outside the store: its checkpoint, its services, and the input that waits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path, output_of
from streamwarden.checkpoint.compact_logs import CompactLog, compact_logs
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import LogPosition, committed_times, log_position, planned_times
from streamwarden.checkpoint.formats.state import kept_versions, state_stores
from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.checkpoint.skipped import SkippedBatches, skipped_batches
from streamwarden.errors import SourceUnresponsive, StreamwardenError
from streamwarden.health.check import Check
from streamwarden.health.checks import CHECKS
from streamwarden.health.signals.services import Need, needs
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import (
    Answer,
    Batch,
    DeclaredInput,
    DeclaredSavepoints,
    Probed,
    Reading,
    Service,
    StateInstance,
    TableShape,
    WaitingInput,
)
from streamwarden.lifecycle.forks.script_sources import is_recursive
from streamwarden.lifecycle.savepoints.savepoint import root_of
from streamwarden.schedules import interval_at
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.services.monitoring.reachability import Services
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import StoredSource
from streamwarden.stream.spec import StreamSpec

_FILE_SINK: Final = re.compile(r"FileSink\[(?P<path>.+)\]")
"""How Spark's reports name a folder of its own file sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """A part that could not be probed is None; `problems` says why."""

    checkpoint: Location | None = None
    log: LogPosition | None = None
    state: tuple[StateInstance, ...] | None = None
    waiting: WaitingInput | None = None
    logs: tuple[CompactLog, ...] | None = None
    table: TableShape | None = None
    readings: Mapping[Reading[Any], object] = field(default_factory=dict)
    answers: tuple[Answer, ...] = ()
    problems: tuple[str, ...] = ()

    def times(self) -> tuple[dict[int, float | None], dict[int, float | None]]:
        """Times at which the batches in the logs were planned and committed: two listings, on demand."""
        if self.checkpoint is None:
            return {}, {}
        return planned_times(self.checkpoint), committed_times(self.checkpoint)


def probe(
    spec: StreamSpec,
    services: Services | None = None,
    checks: Sequence[Check] = CHECKS,
    *,
    sized: bool = True,
    before: Mapping[str, Verdict] = MappingProxyType({}),
) -> ProbeResult:
    """Probe the checkpoint, the input and the services of `spec`, as far as `checks` need it. Never raises for
    something missing, damaged or unreachable.

    Threads may probe different streams at the same time.

    Args:
        services: the services' answers so far. Each is asked once for all probes that share it, so share it only
            as long as an answer may be taken to hold: for one evaluation.
        sized: also measure the bytes of each partition of the state, for which each of its files is looked at.
        before: the last verdicts of the checks: what they know need not be read again.
    """
    services, wanted = services or Services(), probes_of(checks)
    answers = tuple(services.answer(need) for need in needs(spec))
    try:
        checkpoint = checkpoint_of(spec)
        log = log_position(checkpoint)
    except (StreamwardenError, OSError) as error:
        return ProbeResult(answers=answers, problems=(str(error),))
    problems: list[str] = []
    state, waiting, logs = None, None, None
    table = _table(spec) if Probed.TABLE in wanted and log.planned is not None else None
    readings: Mapping[Reading[Any], object] = {}
    try:
        state = _state(checkpoint, sized=sized) if Probed.STATE in wanted else None
        readings = _readings(spec, checkpoint, checks, before)
        logs = _logs(spec, checkpoint) if Probed.LOGS in wanted and log.planned is not None else None
        why_not = _why_not_asked(spec, services) if Probed.WAITING in wanted else None
        if why_not is not None:
            problems.append(why_not)
            answers = _without_offsets(spec, answers, None, why_not)
        elif Probed.WAITING in wanted and isinstance(spec.source, StoredSource):
            waiting = spec.source.waiting(spec, checkpoint)
    except SourceUnresponsive as error:
        problems.append(str(error))
        services.was_slow(str(spec.source.connection))
        answers = _without_offsets(spec, answers, False, f"it answers, but gives no offsets: {error.observed}")
    except (StreamwardenError, OSError) as error:
        problems.append(str(error))
    return ProbeResult(
        checkpoint=checkpoint,
        log=log,
        state=state,
        waiting=waiting,
        logs=logs,
        table=table,
        readings=readings,
        answers=answers,
        problems=tuple(problems),
    )


def probes_of(checks: Iterable[Check]) -> frozenset[Probed]:
    """What the checks need of what is read outside the store."""
    return frozenset(wanted for check in checks for wanted in check.probes)


def skipped_of(spec: StreamSpec, batches: Sequence[Batch]) -> SkippedBatches | None:
    """The batches that the manifest of the stream's output skipped; None if it has no manifest, or cannot be read.

    Args:
        batches: recent ones, oldest first: their reports name the output of a script.
    """
    place = _output(spec, batches)
    if place is None:
        return None
    try:
        return skipped_batches(checkpoint_of(spec), open_path(place, spec.storage.connection))
    except (StreamwardenError, OSError):
        return None


def _output(spec: StreamSpec, batches: Sequence[Batch]) -> str | None:
    """The folder of Spark's own file sink."""
    if spec.sink.DECLARED:
        return spec.sink.path if spec.sink.MANIFEST else None
    newest = next((batch.progress.sink for batch in reversed(batches) if batch.progress is not None), "")
    written = _FILE_SINK.fullmatch(newest)
    return None if written is None else of_hadoop(written["path"])


def _state(checkpoint: Location, *, sized: bool) -> tuple[StateInstance, ...]:
    if not sized:
        return tuple(
            StateInstance(
                operator=store.operator,
                partition=store.partition,
                snapshot=store.snapshot,
                version=store.newest,
                kept_since=store.kept_since,
            )
            for store in kept_versions(checkpoint)
        )
    return tuple(
        StateInstance(
            operator=store.operator,
            partition=store.partition,
            snapshot=max(store.snapshots, default=None),
            version=store.newest,
            kept_since=store.kept_since,
            size=store.bytes,
        )
        for store in state_stores(checkpoint)
    )


def _logs(spec: StreamSpec, checkpoint: Location) -> tuple[CompactLog, ...] | None:
    """None if the storage of the output does not answer, or only Spark reaches it: the other probes go on."""
    try:
        return compact_logs(checkpoint, output_of(spec))
    except (StreamwardenError, OSError):
        return None


def _table(spec: StreamSpec) -> TableShape | None:
    """None if the storage of the output does not answer, or the reader of such tables is not installed."""
    try:
        return spec.sink.shape(spec) if isinstance(spec.sink, Sink) else None
    except (StreamwardenError, OSError):
        return None


def _readings(
    spec: StreamSpec, checkpoint: Location, checks: Iterable[Check], before: Mapping[str, Verdict]
) -> Mapping[Reading[Any], object]:
    """What the checks' own readings find. One that cannot be read is left out, and the other probes go on."""

    def recursive() -> bool:
        """By the stream's file, or by the text of its script."""
        options = [spec.source.options, *(source.options for source in job_facts(spec).inputs)]
        return any(map(is_recursive, options))

    declared = DeclaredInput(folders=spec.source.folders, recursive=recursive, savepoints=_savepoints(spec))
    found: dict[Reading[Any], object] = {}
    for name, reading in ((check.name, reading) for check in checks for reading in check.readings):
        evidence = before[name].evidence if name in before else {}
        with suppress(StreamwardenError, OSError):
            found[reading] = reading.read(checkpoint, replace(declared, before=evidence))
    return found


def _savepoints(spec: StreamSpec) -> DeclaredSavepoints | None:
    schedule = spec.savepoints.schedule
    if schedule is None:
        return None
    root = open_path(root_of(spec), spec.storage.connection)
    return DeclaredSavepoints(root=root, interval=partial(interval_at, schedule))


def _without_offsets(
    spec: StreamSpec, answers: tuple[Answer, ...], reached: bool | None, problem: str
) -> tuple[Answer, ...]:
    """The answers for a stream whose source did not give its offsets, though the service itself answers.

    For this stream that is an outage like any other: a partition without a leader, or an address that the broker
    advertises and this host cannot reach. If the offsets were not requested, nothing is known.
    """
    return tuple(
        replace(answer, reached=reached, problem=problem)
        if answer.reached and answer.service == spec.source.SERVICE and answer.connection == spec.source.connection
        else answer
        for answer in answers
    )


def _why_not_asked(spec: StreamSpec, services: Services) -> str | None:
    """Why the source is not asked for its backlog; None if it is. Without this, each stream would wait for
    the same missing answer."""
    source = spec.source
    if source.SERVICE is None:
        return None
    answer = services.answer(Need(Service(source.SERVICE), str(source.connection)))
    skipped = f"the {source.SERVICE} was not asked what waits in {source.topic}"
    service = f"the {source.SERVICE} {answer.address} of the connection {answer.connection}"
    if answer.reached is False:
        return (
            f"{skipped}: {service} does not answer ({answer.problem}); check that the {source.SERVICE} runs and that "
            "the connection names its host and port"
        )
    if services.is_slow(answer.connection):
        return (
            f"{skipped}: {service} answers, but gave no offsets for several other streams a moment ago; check that the "
            "leader of each partition runs"
        )
    return None
