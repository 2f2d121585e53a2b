"""Audits a stream while it runs: reads the input, the output and the state of its committed batches, and balances them.

The reading runs in a process with a lower priority and bounded memory. It writes nothing to the stream's places.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.layout import Damaged
from streamwarden.checkpoint.logs import OffsetRecord, all_offsets, committed_times
from streamwarden.config.loading import spec_to_dict
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.services.auditing.reading import input_of, output_of
from streamwarden.services.fleet.program import in_quick_jvm, on_this_host, run_program
from streamwarden.stream import StreamSpec
from streamwarden.verification.balance import Audit, Entry, Range, audited_range, writing_batch

TIMEOUT: Final = 3600.0
"""Seconds; a year of flights takes less than a minute."""

MEMORY: Final = 2**30
"""Bytes of the heap of the reading process. What does not fit is on its disk meanwhile."""

VARIABLE: Final = "STREAMWARDEN_AUDIT"
"""Names the folder of an audit in the environment of each of its processes."""

_NAMED: Final = 20
"""Groups that do not balance and that the result names; all are counted."""

_ATTEMPTS: Final = 3
"""Spark purges the oldest batches of a running stream. A later attempt begins with newer ones, and is not paused."""

_CONF: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
}


def audit(spec: StreamSpec, *, last: int | None = None, share: float = 1.0, timeout: float = TIMEOUT) -> Audit:
    """Balance the books of the stream's committed batches. The stream may run meanwhile, or be stopped.

    Args:
        last: audit at most so many batches.
        share: the part of the time in which the reading runs; see `AuditSpec`.
        timeout: seconds after which the reading is ended.

    Raises:
        VerificationError: what is needed cannot be read.
        ProcessError: there is no usable Java, or the jars that the source needs are not on this host.
    """
    if not (spec.source.DECLARED and spec.sink.DECLARED):
        reason = "the job opens its source or its sink itself, so it is unknown what it read and wrote"
        return Audit(stream=spec.name, range=None, impossible=reason)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _attempt(spec, last, share if attempt == 1 else 1.0, timeout)
        except _Purged as purged:
            if attempt == _ATTEMPTS:
                raise VerificationError(
                    f"Spark purged what the audit was reading, in each of {_ATTEMPTS} attempts: {purged}",
                    expected="logs and state that are kept until the audit has read them",
                    where=spec.checkpoint,
                    next_step="audit fewer batches (--batches), or raise spark.sql.streaming.minBatchesToRetain",
                ) from purged
    raise AssertionError("the last attempt returns or raises")


class _Purged(Exception):
    """A batch of the range is not kept any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the reading process is asked for.

    Args:
        document: its `request.json`; see `spark.audit`.
        problems: deviations that the logs show by themselves.
        marks: batch -> watermark, Unix milliseconds.
    """

    range: Range
    document: Mapping[str, Any]
    problems: tuple[str, ...]
    marks: Mapping[int, int]


def _attempt(spec: StreamSpec, last: int | None, share: float, timeout: float) -> Audit:
    made = requested(spec, last)
    if isinstance(made, Audit):
        return made
    return judged(spec, made, _run(spec, made, share, timeout))


def requested(spec: StreamSpec, last: int | None = None) -> Request | Audit:
    """What has to be read; an Audit if there is nothing to audit. Raises VerificationError."""
    checkpoint = open_path(spec.checkpoint, spec.storage.connection)
    try:
        commits = committed_times(checkpoint)
        offsets = all_offsets(checkpoint)
        audited = audited_range(offsets.keys(), commits.keys(), last)
        if audited is None:
            reason = "no batch was committed yet" if not commits else "the logs of too few batches are kept"
            return Audit(stream=spec.name, range=None, impossible=reason)
        missing = [batch for batch in audited.batches if batch not in offsets]
        if missing:
            raise _Purged(f"offsets/{missing[0]} is not kept any more")
        output = output_of(spec, audited, commits)
        document = {
            "spec": spec_to_dict(spec),
            "after": audited.after,
            "upto": audited.upto,
            "named": _NAMED,
            "late_ms": {batch: _mark(offsets, batch - 1) for batch in audited.batches},
            "final_ms": _mark(offsets, audited.upto),
            **input_of(spec, checkpoint, audited),
            "output": output.request,
        }
    except (CheckpointError, Damaged, OSError, ValueError, IndexError) as error:
        raise VerificationError(
            f"the logs of the checkpoint or of the output cannot be read: {error}",
            expected="whole logs, as Spark wrote them",
            where=spec.checkpoint,
            next_step="run `streamwarden inspect` on it",
        ) from error
    marks = {batch: _mark(offsets, batch) for batch in offsets}
    return Request(range=audited, document=document, problems=output.problems, marks=marks)


def _mark(offsets: Mapping[int, OffsetRecord], batch: int) -> int:
    return offsets[batch].watermark_ms if batch in offsets else 0


def _still_kept(spec: StreamSpec, audited: Range) -> bool:
    offsets = all_offsets(open_path(spec.checkpoint, spec.storage.connection))
    return max(audited.after, 0) in offsets


def _run(spec: StreamSpec, request: Request, share: float, timeout: float) -> dict[str, Any]:
    """The result of the program. Raises _Purged, VerificationError, ProcessError."""
    with tempfile.TemporaryDirectory(prefix="streamwarden-audit-") as scratch:
        folder = Path(scratch)
        (folder / "request.json").write_text(json.dumps(request.document), encoding="utf-8")
        try:
            status = run_program(
                "audit", _reader(spec), folder, reads=spec, variable=VARIABLE, within=timeout, share=share
            )
        except subprocess.TimeoutExpired as error:
            raise _failed(spec, f"the reading took longer than {timeout:.0f} s") from error
        result = folder / "result.json"
        if result.exists():
            found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            if "failed" not in found:
                return found
            if _still_kept(spec, request.range):
                raise _failed(spec, found["failed"])
            raise _Purged("the oldest audited batch was purged")
        said = (folder / "audit.log").read_text(encoding="utf-8", errors="replace")
        raise _failed(spec, f"Spark ended with {status}: {said[-1000:].strip()}")


def _reader(spec: StreamSpec) -> StreamSpec:
    """The stream with the settings of the reading process."""
    small = on_this_host(in_quick_jvm(spec), "local[1]", MEMORY)
    return replace(small, spark=replace(small.spark, conf={**small.spark.conf, **_CONF}))


def _failed(spec: StreamSpec, observed: str) -> VerificationError:
    return VerificationError(
        f"the audit could not be finished: {observed}",
        expected="input, output and state that Spark can read",
        where=spec.name,
        next_step="check that the input of the audited batches still exists, and run the audit again",
    )


def judged(spec: StreamSpec, request: Request, result: Mapping[str, Any]) -> Audit:
    """The audit by the `result.json` of the reading process."""
    audited, problems = request.range, request.problems
    if "impossible" in result:
        return Audit(stream=spec.name, range=audited, problems=problems, impossible=result["impossible"])
    return Audit(
        stream=spec.name,
        range=audited,
        operator=result["operator"],
        amounts=result["amounts"],
        counts=result["counts"],
        left_out=result["left_out"],
        entries=result["entries"],
        unbalanced=result["unbalanced"],
        unsure=result["unsure"],
        read=result["read"],
        unit=result["unit"],
        worst=[
            Entry(
                key=each["key"],
                sides=_numbers(each["sides"]),
                exclusive=result["exclusive"],
                batch=writing_batch(each["end_ms"], request.marks, audited.batches),
                read_by=None
                if each["read_by"] is None
                else Range(after=each["read_by"][0] - 1, upto=each["read_by"][1]),
            )
            for each in result["worst"]
        ],
        totals=_numbers(result["totals"]),
        problems=problems,
    )


def _numbers(sides: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        side: {name: Decimal(value) if isinstance(value, str) else value for name, value in amounts.items()}
        for side, amounts in sides.items()
    }
