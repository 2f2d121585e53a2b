"""Verifies a bounded run of a stream: facts from its checkpoint, its job's oracle, its output, reconciled.

The oracle answers in a process of its own, which can read nothing that a run has written (see `oracle_process`).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.logs import LogPosition, all_offsets, log_position
from streamwarden.checkpoint.formats.schemas import state_fields
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.lifecycle.location import URL
from streamwarden.services.verifying.batch_inputs import describe_input
from streamwarden.services.verifying.lost_inputs import records_like
from streamwarden.services.verifying.oracle_process import Question, ask_oracle
from streamwarden.services.verifying.outputs import reconcile_outputs
from streamwarden.sinks.base import Sink
from streamwarden.sinks.columns import values_of
from streamwarden.sinks.output import Output, Part
from streamwarden.sources.base import FinishedRun, RunInput, Source, unknown_input
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.columns import report_columns
from streamwarden.verification.comparing.starts import Start, stale_entries
from streamwarden.verification.contradictions import contradictions
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.reconciliation import CHANGED_BY_COPIES, Reconciliation

WITHOUT_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"

_ORPHANS: Final = 5
"""Orphan files that a note names; all are counted."""


def verify(
    spec: StreamSpec,
    *,
    inputs: Sequence[Path] | None = None,
    first: int = 0,
    deduplicated: bool = True,
    lost: Sequence[TopicRange] = (),
    copied: CopiedTopic | None = None,
    starts: Sequence[Start] = (),
    bounded_from: int | None = None,
    owed: int = 0,
    copies: Collection[str] = (),
    closed: Sequence[str] = (),
) -> Reconciliation:
    """Compare the stream's output with its oracle's.

    The run must have ended, or at least have read its input: a file that it has yet to read counts as lost.

    Args:
        inputs: the whole bounded input; by default every file in the source's folders. Of a topic it is what the
            committed batches read, which is read again.
        first: first batch whose output is judged. A fork that was rewound took over its origin's manifest up to
            there: its whole output is judged (0), or what it wrote itself (its first own batch). Its topic begins with
            that: then no other is possible.
        deduplicated: False: of a topic, as a reader sees it that does not know event ids.
        lost: records of the source's topic that are known to be gone, and that no batch can have read: the output is
            compared with the rest. Any other record that is gone is an error.
        copied: the source's topic is this copy of another one, from which the records are read: the copy may have lost
            them since.
        starts: of the drivers that wrote the checkpoint, as recorded (`recorded_starts.starts_of`). A start that is not
            among them explains nothing: a watermark that stalled after it, and a batch that was skipped, are
            deviations.
        bounded_from: the run came to the end of its input by itself, and all of it was there before this batch. Then
            the last batches, without data, are owed too, and the files were read oldest first.
        owed: records (offsets, to be exact) that were in the source's topic for the batches from there on: a run that
            committed fewer ended too early.
        copies: names of input files that are copies of others. The notes say in how many rows the expected output
            differs from that of the input without them.
        closed: folders that the oracle may not read, besides what the stream itself writes.

    Raises VerificationError if no verdict is possible: no oracle, another source or sink, logs that are purged
    or damaged, a file that cannot be read.
    """
    if not (isinstance(spec.source, Source) and isinstance(spec.sink, Sink)):
        raise VerificationError(
            f"a source of kind {spec.source.kind} and a sink of kind {spec.sink.kind}",
            expected="a source and a sink that the stream's file declares: any kind but `script`",
            where=spec.name,
            next_step="verify this stream with a query that you write; an oracle has to know what was read",
        )
    with TemporaryDirectory(prefix="streamwarden-input-") as scratch:
        position = _position(spec)
        run = FinishedRun(
            checkpoint=checkpoint_of(spec),
            committed=position.committed,
            into=Path(scratch),
            inputs=inputs,
            lost=lost,
            copied=copied,
            bounded_from=bounded_from,
            owed=owed,
        )
        given = spec.source.read_back(spec, run)
        facts = _facts(spec, position, given, first=first, starts=starts, ended=bounded_from is not None)
        questions = [(given.inputs, facts), *([_without(copies, given.inputs, facts)] if copies else [])]
        closed = [*written_places(spec), *closed]
        expectation, *others = ask_oracle(Path(spec.job), questions, closed=closed, into=Path(scratch))
        output = spec.sink.read(
            spec, expectation.samples(), committed=facts.committed, first=facts.first, deduplicated=deduplicated
        )
        names = (*expectation.key_columns, *expectation.value_columns)
        newest = output.manifest.newest if output.manifest else None
        return reconcile_outputs(
            Output.of_rows(names, ((*key, *values) for key, values in expectation.rows.items())),
            output,
            keys=expectation.key_columns,
            values=expectation.value_columns,
            records=expectation.counts.records,
            notes={
                **_notes(expectation, output),
                **_changed_by(expectation, others),
                "starts": [asdict(start) for start in facts.starts],
            },
            problems=(
                *stale_entries(facts.starts, newest=newest, planned=facts.planned),  # a cause goes before its effects
                *expectation.problems,
                *contradictions(facts),
                *given.problems,
                *output.problems,
                *_unbalanced(expectation, output),
            ),
            tolerances=expectation.tolerances,
            columns=report_columns(
                expectation.key_columns, expectation.column_types(), output.all_types, complete=expectation.complete
            ),
            input_of=partial(describe_input, checkpoint=checkpoint_of(spec), files=given.files),
            input_like=partial(records_like, inputs=given.inputs),
        )


def written_places(spec: StreamSpec) -> list[str]:
    """The folders on this host that the stream's queries write."""
    places = (spec.sink.path, spec.checkpoint, spec.quarantine)
    return [place for place in places if place and not URL.match(place)]


def read_facts(spec: StreamSpec) -> RunFacts:
    """An oracle's facts on a run beside its input: its committed batches' files, watermarks, times, and the
    stream's settings that decide what comes out. Raises VerificationError if the checkpoint's logs are not whole."""
    position = _position(spec)
    run = FinishedRun(checkpoint=checkpoint_of(spec), committed=position.committed)
    given = spec.source.read_back(spec, run) if isinstance(spec.source, Source) else RunInput()
    return _facts(spec, position, given)


def _position(spec: StreamSpec) -> LogPosition:
    checkpoint = checkpoint_of(spec)
    try:
        return log_position(checkpoint)
    except (CheckpointError, OSError) as error:
        raise unknown_input(checkpoint.path, error) from error


def _facts(
    spec: StreamSpec,
    position: LogPosition,
    given: RunInput,
    *,
    first: int = 0,
    starts: Sequence[Start] = (),
    ended: bool = False,
) -> RunFacts:
    """The facts of a run that read `given`. `starts`, `ended`: see `RunFacts`; they do not come from the checkpoint."""
    checkpoint, committed = checkpoint_of(spec), position.committed
    # Spark runs a batch without data when only the watermark moved: the stream's file decides that, not its job.
    without_data = spec.trigger.available_now and spec.spark.conf.get(WITHOUT_DATA, "true").lower() != "false"
    last = -1 if committed is None else committed
    try:
        planned = {batch: record for batch, record in all_offsets(checkpoint).items() if batch <= last}
        state = state_fields(checkpoint)
    except (CheckpointError, Damaged, OSError, ValueError) as error:
        raise unknown_input(checkpoint.path, error) from error
    return RunFacts(
        files=given.files,
        watermarks={batch: record.watermark_ms for batch, record in planned.items()},
        committed=committed,
        first=first,
        times={batch: record.timestamp_ms for batch, record in planned.items()},
        state={batch: fields for batch, fields in state.items() if batch <= last},
        args=spec.args,
        options=spec.source.options,
        ttl=spec.state.ttl,
        starts=tuple(starts),
        ended=ended and without_data,
        planned=position.planned,
        rate=given.rate,
    )


def _notes(expectation: Expectation, output: Output) -> dict[str, object]:
    return {
        **expectation.notes,
        **output.notes,
        "books": asdict(expectation.counts),
        "output_files": output.files,
        "newest_manifest_entry": output.manifest.newest if output.manifest else None,
        "orphan_files": len(output.orphans),
        "orphan_samples": list(output.orphans[:_ORPHANS]),
    }


def _without(copies: Collection[str], inputs: Sequence[Path], facts: RunFacts) -> Question:
    """The question about the input without the copies."""

    def kept(files: Sequence[Path]) -> tuple[Path, ...]:
        return tuple(file for file in files if file.name not in copies)

    return kept(inputs), replace(facts, files={batch: kept(files) for batch, files in facts.files.items()})


def _changed_by(expectation: Expectation, others: Sequence[Expectation]) -> dict[str, object]:
    """Notes on how copies change the expected output, if the input without them was asked about."""
    if not others:
        return {}
    plain, whole = others[0].rows, expectation.rows
    differ = sum(plain.get(key) != whole.get(key) for key in plain.keys() | whole.keys())
    return {CHANGED_BY_COPIES: differ, "rows_without_copies": len(plain)}


def _whole(value: object) -> int:
    """A count of any type of number; 0 for a value that is not a count."""
    if isinstance(value, (float, Decimal)):
        return int(value) if math.isfinite(value) and value == int(value) else 0
    return value if isinstance(value, int) else 0


def _unbalanced(expectation: Expectation, output: Output) -> list[str]:
    """The imbalance, if any: all input must be in the output, still open, late, or malformed."""
    if expectation.count_column is None:
        return []
    counted = sum(_total(part, expectation.count_column) for part in output.parts)
    books = expectation.counts
    if counted == books.emitted:
        return []
    return [
        f"the books do not balance: {books.pairs} (row, window) pairs in, less {books.dropped} late, "
        f"{books.open} open, {books.emitted_before} written earlier, is {books.emitted}; the output counts {counted}"
    ]


def _total(part: Part, column: str) -> int:
    """The sum of a column of counts; 0 if it is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column not in part.table.column_names:
        return 0
    values = part.table.column(column)
    if pa.types.is_integer(values.type):
        return int(pc.sum(values).as_py() or 0)
    return sum(map(_whole, values_of(part.table, column)))
