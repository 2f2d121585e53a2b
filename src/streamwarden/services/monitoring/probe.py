"""What is seen of a stream outside the store: its checkpoint and the input that waits in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final
from urllib.parse import unquote, urlsplit

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.logs import LogPosition, committed_times, log_position, planned_times
from streamwarden.checkpoint.sources import SourceFile, source_entries
from streamwarden.checkpoint.state import state_stores
from streamwarden.errors import StreamwardenError
from streamwarden.health.services import Need, needs
from streamwarden.health.window import Answer, Service, StateInstance, WaitingInput
from streamwarden.services.monitoring.reachability import Services
from streamwarden.sources.files import FilesSource
from streamwarden.stream import StreamSpec
from streamwarden.units import parse_duration

RECENT: Final = 20
"""Entries of the file source's log that tell how many files a batch reads."""

_MAX_FILE_AGE: Final = "7d"
"""Spark's default of `maxFileAge`: a file that is older than the newest read one by more is never read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """None where it could not be seen; `problems` says why."""

    checkpoint: Location | None = None
    log: LogPosition | None = None
    state: tuple[StateInstance, ...] | None = None
    waiting: WaitingInput | None = None
    answers: tuple[Answer, ...] = ()
    problems: tuple[str, ...] = ()

    def times(self) -> tuple[dict[int, float | None], dict[int, float | None]]:
        """When each batch that the logs still have was planned and committed: two listings, on demand."""
        if self.checkpoint is None:
            return {}, {}
        return planned_times(self.checkpoint), committed_times(self.checkpoint)


def survey(spec: StreamSpec, services: Services | None = None) -> Surroundings:
    """Look at the checkpoint, the input and the services of `spec`. Never raises for what is missing, damaged or
    unreachable.

    Threads may survey different streams at the same time.

    Args:
        services: what the services answered so far. They are asked once for all surveys that share it, so it serves as
            long as an answer may be taken to hold: one evaluation.
    """
    services = services or Services()
    answers = tuple(services.answer(need) for need in needs(spec))
    try:
        checkpoint = open_path(spec.checkpoint, spec.storage.connection)
        log = log_position(checkpoint)
    except (StreamwardenError, OSError) as error:
        return Surroundings(answers=answers, problems=(str(error),))
    problems: list[str] = []
    state, waiting = None, None
    try:
        state = tuple(
            StateInstance(
                operator=store.operator,
                partition=store.partition,
                snapshot=max(store.snapshots, default=None),
                version=store.newest,
                size=store.bytes,
            )
            for store in state_stores(checkpoint)
        )
        why_not = _not_asked(spec, services)
        if why_not is not None:
            problems.append(why_not)
            answers = _without_offsets(spec, answers, None, why_not)
        else:
            waiting = waiting_input(spec, checkpoint)
    except (StreamwardenError, OSError) as error:
        problems.append(str(error))
        if spec.source.OFFSETS and _is_silence(error):
            services.was_slow(str(spec.source.connection))
            said = error.observed if isinstance(error, StreamwardenError) else str(error)
            answers = _without_offsets(spec, answers, False, f"it answers, and gives no offsets: {said}")
    return Surroundings(
        checkpoint=checkpoint, log=log, state=state, waiting=waiting, answers=answers, problems=tuple(problems)
    )


def _without_offsets(
    spec: StreamSpec, answers: tuple[Answer, ...], reached: bool | None, problem: str
) -> tuple[Answer, ...]:
    """The answers to a stream whose topic's offsets did not come, though its broker is there.

    For this stream that is an outage as any other: a partition without a leader, or an address that the broker
    advertises and this host cannot reach. If they were not asked for, nothing is known.
    """
    return tuple(
        replace(each, reached=reached, problem=problem)
        if each.reached and each.service is Service.BROKER and each.connection == spec.source.connection
        else each
        for each in answers
    )


def _not_asked(spec: StreamSpec, services: Services) -> str | None:
    """Why a topic's offsets are not asked for; None if they are: then each stream waits for an answer by itself."""
    source = spec.source
    if not source.OFFSETS:
        return None
    topic = f"what waits in the topic {source.topic} was not asked"
    answer = services.answer(Need(Service.BROKER, str(source.connection)))
    if answer.reached is False:
        return (
            f"{topic}: the broker {answer.address} of the connection {answer.connection} does not answer "
            f"({answer.problem}); see that the broker runs and that the connection names its host and port"
        )
    if services.is_slow(answer.connection):
        return (
            f"{topic}: the broker {answer.address} of the connection {answer.connection} answers, and gave no offsets "
            "for several other streams a moment ago; see that the leader of each partition runs"
        )
    return None


def waiting_input(spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
    """The files of flat input folders that the logs of their sources do not name, or the records of a topic that no
    batch has planned.

    None where that cannot be told: another kind of source, a pattern or subfolders in the path, an age limit that is
    not understood. Raises CheckpointError, ConfigError, SourceError, OSError.
    """
    source = spec.source
    if source.OFFSETS:
        from streamwarden.sources.kafka.lag import waiting_records

        return waiting_records(spec, checkpoint)
    if not isinstance(source, FilesSource) or any(mark in source.path for mark in "*?[{"):
        return None
    options = {key.lower(): value for key, value in source.options.items()}
    oldest = _max_age(options)
    if oldest is None:
        return None
    found = [
        _waiting(open_path(folder, spec.storage.connection), oldest, source_entries(checkpoint, at))
        for at, folder in enumerate(source.folders)
    ]
    known = [each for each in found if each is not None]
    return reduce(_together, known) if len(known) == len(found) else None


def _is_silence(error: Exception) -> bool:
    """Whether no answer came in time; a topic or partition that a broker tells nothing of is another matter."""
    from confluent_kafka import KafkaError, KafkaException

    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
    )


def _together(one: WaitingInput, other: WaitingInput) -> WaitingInput:
    """What waits in front of two sources of one query; each of its batches reads of both."""
    since = [each.since for each in (one, other) if each.since is not None]
    return WaitingInput(
        count=one.count + other.count,
        size=None if one.size is None or other.size is None else one.size + other.size,
        since=min(since, default=None),
        planned=one.planned + other.planned,
        planned_batches=max(one.planned_batches, other.planned_batches),
    )


def _waiting(folder: Location, oldest: float, log: Mapping[int, tuple[SourceFile, ...]]) -> WaitingInput | None:
    """None if the folder has subfolders."""
    try:
        entries = [entry for entry in folder.entries() if not entry.name.startswith((".", "_"))]
    except FileNotFoundError:
        return WaitingInput(count=0, size=0, since=None)
    if any(entry.is_dir for entry in entries):
        return None
    read = [each for batch in log.values() for each in batch]
    known = {_name(each.path) for each in read}  # the folder is flat: a name is a file
    horizon = max((each.timestamp_ms for each in read), default=0) / 1000 - oldest
    waiting = [
        entry for entry in entries if entry.name not in known and (entry.modified is None or entry.modified >= horizon)
    ]
    recent: Mapping[int, tuple[SourceFile, ...]] = dict(list(log.items())[-RECENT:])
    return WaitingInput(
        count=len(waiting),
        size=sum(entry.size for entry in waiting),
        since=min((entry.modified for entry in waiting if entry.modified is not None), default=None),
        planned=sum(len(batch) for batch in recent.values()),
        planned_batches=len(recent),
    )


def _name(uri: str) -> str:
    """The file's name as it is on disk; Spark percent-encodes what it writes."""
    return unquote(urlsplit(uri).path).rsplit("/", 1)[-1]


def _max_age(options: Mapping[str, str]) -> float | None:
    try:
        return parse_duration(options.get("maxfileage", _MAX_FILE_AGE))
    except ValueError:
        return None
