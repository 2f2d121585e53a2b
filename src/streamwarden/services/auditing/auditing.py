"""Audits a stream while it runs: reads the input, the output and the state of its committed batches, and balances them.

The reading runs in a process with a lower priority and bounded memory. It reads hard links to the checkpoint's files,
and writes nothing to the stream's places.
"""

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from streamwarden.checkpoint.changed_input import describe_changed
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.errors import VerificationError
from streamwarden.services.auditing.gathering import commit_times, gather, held_checkpoint, is_kept, readable
from streamwarden.services.auditing.reading import input_of, notes_of, output_of
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.fleet.launching.one_off_spark import in_quick_jvm, on_this_host, run_program
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.balance import Audit, Range, Result, audited_range, writing_batch

READING: Final = 3600.0
"""Seconds of reading, without its pauses, after which an audit is given up; a year of flights takes less than 60."""

LONGEST: Final = 6 * 3600.0
"""Seconds after which it is given up with its pauses."""

MEMORY: Final = 2**30
"""Bytes of the heap of the reading process. What does not fit is on its disk meanwhile."""

_NAMED: Final = 20
"""Groups that do not balance and that the result names; all are counted."""

_ATTEMPTS: Final = 3
"""At a checkpoint that cannot be held. Each expects the reading to take twice as long as the one before."""

_EXPECTED: Final = 40.0
"""Seconds that the reading of 50 batches takes without pauses (measured: 37)."""

_CONF: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
}


def longest(share: float) -> Seconds:
    """After how long an audit is given up. `share`: see `AuditSpec`."""
    return min(READING / share, LONGEST)


def audit(spec: StreamSpec, *, last: int | None = None, share: float = 1.0, timeout: Seconds | None = None) -> Audit:
    """Balance the books of the stream's committed batches. The stream may run meanwhile, or be stopped.

    It reads a checkpoint of hard links, so that it may take as long as it likes: Spark cannot purge linked files. An
    object store, or a checkpoint on another disk than the data folder, has no links: see `_overtaken`.

    Args:
        last: audit at most so many batches.
        share: the part of the time in which the reading runs; see `AuditSpec`.
        timeout: after which the reading is ended; None: `longest`.

    Raises:
        VerificationError: a needed file cannot be read.
        ProcessError: there is no usable Java, or the jars that the source needs are not on this host.
    """
    if not (spec.source.DECLARED and spec.sink.DECLARED):
        reason = "the job opens its source or its sink itself, so it is unknown what it read and wrote"
        return Audit(stream=spec.name, range=None, impossible=reason)
    within = longest(share) if timeout is None else timeout
    with work_folder(spec) as folder:
        held = held_checkpoint(spec, folder)
        if held is None:
            return _overtaken(spec, last, share, within, folder)
        made = requested(spec, last, held=held)
        return made if isinstance(made, Audit) else judged(spec, made, _run(spec, made, share, within, folder))


def _overtaken(spec: StreamSpec, last: int | None, share: float, within: Seconds, folder: Path) -> Audit:
    """The audit of a checkpoint of which Spark purges the oldest batches meanwhile: it leaves out as many of them as
    are purged while it reads, and if they are too few it has shorter pauses."""
    for attempt in range(1, _ATTEMPTS + 1):
        chosen = pace_of(commit_times(spec), last, _EXPECTED * 2 ** (attempt - 1), share)
        made = requested(spec, last, margin=chosen.margin)
        if isinstance(made, Audit):
            return made
        inner = folder / str(attempt)
        inner.mkdir()
        try:
            return judged(spec, made, _run(spec, made, chosen.share, within, inner))
        except VerificationError as error:
            if is_kept(spec, made.range):
                raise
            purged = error
    raise VerificationError(
        f"Spark purged what the audit was reading, in each of {_ATTEMPTS} attempts: {purged.observed}",
        expected="logs and state that are kept until the audit has read them",
        where=spec.checkpoint,
        next_step="put the data folder on the disk of the checkpoint, audit fewer batches (--batches), or raise "
        "spark.sql.streaming.minBatchesToRetain",
    ) from purged


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of an audit while Spark purges batches.

    Args:
        margin: how many of the oldest batches are left out, because Spark purges them while the audit reads.
        share: the part of the time in which the reading runs.
    """

    margin: int
    share: float


def pace(spare: int, period: Seconds, reading: Seconds, share: float) -> Pace:
    """The pace at which the reading ends before Spark purges its batches: at the `share` that was asked for if the
    spare batches last so long, otherwise at a larger one.

    Args:
        spare: kept batches that the audit may leave out; period: from one batch to the next.
        reading: its duration without pauses.
    """
    slack = spare * period
    if reading <= slack * share:
        return Pace(math.ceil(reading / share / period), share)
    return Pace(spare, reading / slack if reading < slack else 1.0)


def pace_of(times: Sequence[float], last: int | None, reading: Seconds, share: float) -> Pace:
    """The pace for a checkpoint with batches that were committed at `times`, of which the last `last` are audited."""
    kept = len(times)
    if kept < 2 or times[0] == times[-1]:
        return Pace(0, 1.0)
    spare = max((kept - 1) // 2, kept - 1 - (last or kept))
    return pace(spare, (times[-1] - times[0]) / (kept - 1), reading, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the reading process.

    Args:
        document: its `request.json`; see `spark.audit`.
        problems: deviations that the logs show by themselves; notes: what may explain those of the books.
        marks: batch -> watermark, Unix milliseconds.
    """

    range: Range
    document: Mapping[str, Any]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    marks: Mapping[int, int]


def requested(
    spec: StreamSpec, last: int | None = None, *, held: Location | None = None, margin: int = 0
) -> Request | Audit:
    """The reader's request; an Audit if there is nothing to audit.

    Args:
        held: the checkpoint of hard links; None: the stream's own is read.
        margin: see `audited_range`.

    Raises VerificationError.
    """
    with readable(spec):
        logs = gather(spec, held)
        audited = audited_range(
            logs.offsets.keys(), logs.commits.keys(), last, margin=margin, usable=logs.can_begin_after
        )
        if audited is None:
            few = "the logs or the state of too few batches are kept"
            reason = few if logs.commits else "no batch was committed yet"
            return Audit(stream=spec.name, range=None, impossible=reason)
        changed = spec.source.changed(spec, logs.checkpoint, audited.batches) if isinstance(spec.source, Source) else ()
        if changed:
            return Audit(stream=spec.name, range=None, impossible=describe_changed(changed))
        output = output_of(spec, audited, logs.commits)
        given = input_of(spec, logs.checkpoint, audited)
        document = {
            "spec": spec_to_dict(spec),
            "checkpoint": spec.checkpoint if held is None else to_hadoop(held.path),
            "after": audited.after,
            "upto": audited.upto,
            "named": _NAMED,
            "late_ms": {batch: logs.mark(batch - 1) for batch in audited.batches},
            "began_ms": logs.offsets[audited.after + 1].timestamp_ms,
            "final_ms": logs.mark(audited.upto),
            "input": given,
            "output": output.request,
        }
    marks = {batch: logs.mark(batch) for batch in logs.offsets}
    return Request(range=audited, document=document, problems=output.problems, notes=notes_of(spec, given), marks=marks)


def _run(spec: StreamSpec, request: Request, share: float, timeout: Seconds, folder: Path) -> Result:
    """The result of the program. Raises VerificationError, ProcessError."""
    (folder / "request.json").write_text(json.dumps(request.document), encoding="utf-8")
    try:
        status = run_program("audit", _reader(spec), folder, reads=spec, within=timeout, share=share)
    except subprocess.TimeoutExpired as error:
        raise _failed(
            spec,
            f"the reading took longer than {timeout:.0f} s, in {share:.0%} of which it ran",
            next_step="raise `audit.share` (--share), or audit fewer batches (--batches)",
        ) from error
    result = folder / "result.json"
    if result.exists():
        answer = Result.of_json(result.read_text(encoding="utf-8"))
        if answer.failed is not None:
            raise _failed(spec, answer.failed)
        return answer
    said = (folder / "audit.log").read_text(encoding="utf-8", errors="replace")
    raise _failed(spec, f"Spark ended with {status}: {said[-1000:].strip()}")


def _reader(spec: StreamSpec) -> StreamSpec:
    """The stream with the settings of the reading process."""
    small = on_this_host(in_quick_jvm(spec), "local[1]", MEMORY)
    return replace(small, spark=replace(small.spark, conf={**small.spark.conf, **_CONF}))


def _failed(
    spec: StreamSpec,
    observed: str,
    next_step: str = "check that the input of the audited batches still exists, and run the audit again",
) -> VerificationError:
    return VerificationError(
        f"the audit could not be finished: {observed}",
        expected="input, output and state that Spark can read",
        where=spec.name,
        next_step=next_step,
    )


def judged(spec: StreamSpec, request: Request, result: Result) -> Audit:
    """The audit by the result of the reading process, with the batch that has to write each named entry."""
    books = {field.name: getattr(result.books, field.name) for field in fields(result.books)}
    books["worst"] = [
        replace(entry, batch=writing_batch(entry.end_ms, request.marks, request.range.batches))
        for entry in result.books.worst
    ]
    return Audit(
        stream=spec.name,
        range=request.range,
        problems=(*request.problems, *result.problems),
        notes=request.notes,
        impossible=result.impossible,
        **books,
    )
