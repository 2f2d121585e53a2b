"""Compares a rewound fork with what the stream itself wrote in the same batches.

The first life of a rewound fork is a restart, and so is its twin's: a job that loses rows in each restart loses them in
both. The stream may have executed the same batches without a restart. Its rows are then the third witness.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.logs import all_offsets, committed_times
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.checkpoint.formats.sources import files_read, log_offset
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.job_files import files_of
from streamwarden.services.twins.keys import RowKey
from streamwarden.services.verifying.outputs import compare_outputs
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output, Part
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.units import format_count
from streamwarden.verification.reconciliation import Reconciliation
from streamwarden.verification.tolerance import Tolerance

_CLOCKS = ("current_timestamp", "current_date", "localtimestamp", "now(", "processingtime")
"""In the plan of a query that reads the clock: the stream's rows have other times than the fork's."""

Plan = tuple[int, tuple[object, ...]]
"""The watermark of a batch, and what it reads from each source."""


class NotComparable(Exception):
    """The rows of the stream say nothing about those of the fork; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class ThirdWitness:
    """What the stream's own rows say: a sentence, and the deviations."""

    sentence: str
    problems: tuple[str, ...] = ()


def third_witness(
    stream: StreamSpec,
    fork: StreamSpec,
    output: Output,
    batches: Sequence[int],
    *,
    key: RowKey,
    plan: str,
    tolerances: Mapping[str, Tolerance],
    left_out: Sequence[str],
) -> ThirdWitness:
    """The comparison of the fork's `output` with the stream's own rows, for the batches that both planned alike.

    Args:
        batches: of the fork; plan: the query's logical plan.
    """
    try:
        same = _comparable(stream, fork, batches, plan)
        found = against_stream(stream, fork, output, same, key=key, tolerances=tolerances, left_out=left_out)
    except (NotComparable, CheckpointError, VerificationError, Damaged, OSError) as reason:
        why = reason.observed if isinstance(reason, (CheckpointError, VerificationError)) else reason
        return ThirdWitness(f"not compared with the stream's own rows: {why}")
    return judged(found, same, len(batches))


def against_stream(
    stream: StreamSpec,
    fork: StreamSpec,
    output: Output,
    batches: Sequence[int],
    *,
    key: RowKey,
    tolerances: Mapping[str, Tolerance],
    left_out: Sequence[str] = (),
    records: int = 0,
) -> Reconciliation:
    """The rows that the fork wrote in these batches, of its `output`, against those that the stream itself wrote.

    Raises NotComparable, CheckpointError, VerificationError, Damaged or OSError if they cannot be read.
    """
    read = ((stream, _own_output(stream, batches)), (fork, output))
    own, its = (rows_of(spec, rows, batches, batches[0] - 1, fork) for spec, rows in read)
    by_key = partial(compare_outputs, own, its, records=records, tolerances=tolerances, ignored=left_out)
    try:
        return by_key(key=key.columns)
    except VerificationError:  # the key does not identify a row of the stream
        return by_key(key=())


def judged(found: Reconciliation, same: Sequence[int], of: int) -> ThirdWitness:
    """The fork's rows against the stream's own."""
    compared = f"the batches {same[0]} to {same[-1]} of {format_count(of, 'batch')}"
    if not found.rows_differ:
        return ThirdWitness(f"the stream itself wrote the same {found.expected:,} rows in {compared}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items() if count)
    samples = [sample for samples in found.samples.values() for sample in samples]
    said = f"the stream itself wrote other rows in {compared}: {kinds} of its {found.expected:,} rows"
    return ThirdWitness(said, (f"{said}, for example {samples[0]}" if samples else said,))


def same_plans(mine: Mapping[int, Plan], own: Mapping[int, Plan], batches: Sequence[int]) -> list[int]:
    """The batches, from the first one on, that both runs planned alike: behind a difference the state differs, too."""
    same: list[int] = []
    for batch in batches:
        if batch not in own or mine.get(batch) != own[batch]:
            break
        same.append(batch)
    return same


def _comparable(stream: StreamSpec, fork: StreamSpec, batches: Sequence[int], plan: str) -> list[int]:
    if any(clock in plan.lower() for clock in _CLOCKS):
        raise NotComparable("the query reads the clock")
    if stream.sink.mode is not OutputMode.APPEND:
        raise NotComparable(f"in the output mode {stream.sink.mode} a later batch replaces rows")
    committed = committed_times(checkpoint_of(stream))
    last = max(committed, default=-1)
    same = [batch for batch in same_plans(_plans(fork), _plans(stream), batches) if batch <= last]
    if not same:
        raise NotComparable(f"it has not committed the batch {batches[0]} with the same input and watermark")
    at = committed.get(same[0])
    if at is not None and any(file.stat().st_mtime > at for file in files_of(Path(stream.job))):
        raise NotComparable("the job has changed since the stream wrote them")
    return same


def _plans(spec: StreamSpec) -> dict[int, Plan]:
    checkpoint = checkpoint_of(spec)
    records = all_offsets(checkpoint)
    places = {place for record in records.values() for place, end in enumerate(record.sources) if _of_files(end)}
    read = {place: files_read(checkpoint, place) for place in places}

    def inputs(batch: int, place: int, end: Any) -> object:
        """The names of the files: their paths, and the positions in the log, are others in a fork."""
        return sorted(file_name(file.path) for file in read[place].get(batch, ())) if place in places else end

    return {
        batch: (record.watermark_ms, tuple(inputs(batch, place, end) for place, end in enumerate(record.sources)))
        for batch, record in records.items()
    }


def _of_files(end: Any) -> bool:
    return log_offset(end) is not None


def _own_output(stream: StreamSpec, same: Sequence[int]) -> Output:
    assert isinstance(stream.sink, Sink)  # no other stream can be forked
    return stream.sink.read(stream, {}, committed=same[-1], first=same[0], deduplicated=True)


def rows_of(spec: StreamSpec, output: Output, same: Sequence[int], before: int, fork: StreamSpec) -> Output:
    """The rows of the output that these batches wrote.

    Args:
        before: the batch before them, up to which `fork` has the same data files.

    Raises NotComparable if that is not known any more.
    """
    if not spec.sink.MANIFEST:
        return replace(output, parts=[_of_batches(part, same) for part in output.parts], problems=())
    names = _names(spec, same[-1]) - _names(fork, before)
    parts = [part for part in output.parts if part.file is not None and file_name(part.file) in names]
    if len(parts) < len(names):
        raise NotComparable("data files of these batches are not there any more")
    return replace(output, parts=parts, problems=())


def _of_batches(part: Part, batches: Sequence[int]) -> Part:
    import pyarrow as pa
    import pyarrow.compute as pc

    if part.batches is None:
        raise NotComparable("the output does not say which batch wrote a row")
    kept = pc.is_in(part.batches, pa.array(batches, pa.int64()))
    return replace(
        part, table=part.table.filter(kept), count=pc.sum(kept).as_py() or 0, batches=part.batches.filter(kept)
    )


def _names(spec: StreamSpec, upto: int) -> set[str]:
    """The names of the data files that the batches up to this one wrote: a fork takes them over."""
    manifest = read_sink_manifest(open_path(str(spec.sink.path), spec.storage.connection), upto)
    if manifest is None or manifest.missing:
        raise NotComparable(f"the manifest as of batch {upto} is not kept any more")
    return {file_name(file.path) for file in manifest.files}
