"""Verifies a bounded run of a stream: facts from its checkpoint, its job's oracle, its output, reconciled.

The oracle of the job FOLDER/NAME.py is the function `expected` in FOLDER/oracles/NAME.py (see verification.oracle).
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from streamwarden.adapters.connections import connection
from streamwarden.adapters.storage.files import download, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.layout import SOURCES, Damaged, read_log_file
from streamwarden.checkpoint.logs import all_offsets, log_position
from streamwarden.checkpoint.schemas import state_fields
from streamwarden.checkpoint.sources import file_source_log
from streamwarden.checkpoint.topics import TopicRange, topic_ranges, without
from streamwarden.checkpoint.uris import local_path, to_path
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.sources.rate import RateSource
from streamwarden.stream import StreamSpec
from streamwarden.verification.columns import report_columns
from streamwarden.verification.contradictions import contradictions, disorder
from streamwarden.verification.oracle import Expectation, Oracle, RateFacts, RunFacts
from streamwarden.verification.reconciliation import Reconciliation, reconcile
from streamwarden.verification.starts import Start, stale_entries

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
) -> Reconciliation:
    """Compare what the stream wrote with what its oracle says it should have.

    The run must have ended, or at least have read its input: a file that it has yet to read counts as lost.

    Args:
        inputs: the whole bounded input; by default every file in the source's folders. Of a topic it is what the
            committed batches read, which is read again.
        first: first batch whose output is judged. A fork that was rewound took over its origin's manifest up to
            there: its whole output is judged (0), or what it wrote itself (its first own batch). Its topic begins with
            that: then no other is possible.
        deduplicated: False: of a topic, as a reader has it who knows nothing of event ids.
        lost: records of the source's topic that are known to be gone, and that no batch can have read: the output is
            held against what is left. Any other record that is gone is an error.
        copied: the source's topic is this copy of another one, from which the records are read: the copy may have lost
            them since.
        starts: of the drivers that wrote the checkpoint, as recorded (`adapters.starts.starts_of`). A start that is not
            among them explains nothing: a watermark that stood still after it, and a batch that was skipped, are
            deviations.
        bounded_from: the run came to the end of its input by itself, and all of it was there before this batch. Then
            the last batches, without data, are owed too, and the files were read oldest first.
        owed: records (offsets, to be exact) that were in the source's topic for the batches from there on: a run that
            committed fewer ended too early, whatever it says.

    Raises VerificationError if there is no verdict to be had: no oracle, another source or sink, logs that are purged
    or damaged, a file that cannot be read.
    """
    if not (spec.source.DECLARED and isinstance(spec.sink, Sink)):
        raise VerificationError(
            f"a source of kind {spec.source.kind} and a sink of kind {spec.sink.kind}",
            expected="files, a topic or the rate source, and parquet, a table or a topic",
            where=spec.name,
            next_step="verify this stream by hand; an oracle has to know what was read",
        )
    oracle = load_oracle(Path(spec.job))
    ranges: Mapping[int, Sequence[TopicRange]] = {}
    with TemporaryDirectory(prefix="streamwarden-input-") as scratch:
        folders = spec.source.folders
        if "source" in spec.in_object_store:
            folders = _copied_input(spec, Path(scratch))
        facts = read_facts(spec, first=first, folders=folders, starts=starts, ended=bounded_from is not None)
        if isinstance(spec.source, KafkaSource):
            ranges = _committed_ranges(spec, facts)
            facts = replace(facts, files=_exported(spec, ranges, Path(scratch), lost, copied))
            inputs = [path for files in facts.files.values() for path in files]
        elif inputs is None:
            inputs = [path for folder in folders for path in input_files(Path(folder))]
        expectation = oracle(inputs, facts)
    output = spec.sink.read(spec, expectation, committed=facts.committed, first=facts.first, deduplicated=deduplicated)
    actual = output.keyed(expectation.key_columns, expectation.value_columns)
    return reconcile(
        expectation.rows,
        actual,
        key_columns=expectation.key_columns,
        value_columns=expectation.value_columns,
        records=expectation.counts.records,
        repeated=output.repeated,
        notes={**_notes(expectation, output), "starts": [asdict(start) for start in facts.starts]},
        problems=(
            *_stale_entries(facts, output),  # a cause goes before what it causes
            *expectation.problems,
            *contradictions(facts),
            *_disorder(spec, facts, bounded_from),
            *unread(ranges, bounded_from or 0, owed),
            *output.problems,
            *_unbalanced(expectation, actual),
        ),
        tolerances=expectation.tolerances,
        columns=report_columns(
            expectation.key_columns, expectation.column_types(), output.all_types, complete=expectation.complete
        ),
    )


def _copied_input(spec: StreamSpec, into: Path) -> tuple[str, ...]:
    """The folder of each source, copied out of the object store: an oracle reads local files."""
    found = []
    for number, folder in enumerate(spec.source.folders):
        target = into / str(number)
        target.mkdir()
        try:
            source = open_path(folder, spec.storage.connection)
            for entry in source.entries():
                if not entry.is_dir and not entry.name.startswith((".", "_")):
                    download(source / entry.name, target / entry.name)
        except OSError as error:
            raise VerificationError(
                f"the input cannot be copied: {error}",
                expected="the folder of the whole input, and room for it on this host",
                where=folder,
                next_step="see that the object store is reachable and that the disk has room",
            ) from error
        found.append(str(target))
    return tuple(found)


def _committed_ranges(spec: StreamSpec, facts: RunFacts) -> dict[int, tuple[TopicRange, ...]]:
    """Committed batch -> ranges of the topic that it read."""
    try:
        ranges = topic_ranges(_checkpoint(spec))
    except (CheckpointError, OSError) as error:
        raise _unknown_input(spec.checkpoint, error) from error
    missing = [
        batch for batch in range((facts.committed if facts.committed is not None else -1) + 1) if batch not in ranges
    ]
    if missing:
        raise _unknown_input(spec.checkpoint, f"batch {missing[0]} or the one before it is not in offsets/ any more")
    return {batch: parts for batch, parts in ranges.items() if facts.committed is not None and batch <= facts.committed}


def unread(ranges: Mapping[int, Sequence[TopicRange]], first: int, owed: int) -> list[str]:
    """Fewer records than there were, as a problem."""
    read = sum(part.end - part.start for batch, parts in ranges.items() if batch >= first for part in parts)
    if read >= owed:
        return []
    return [f"records never read: the batches from {first} on have {read:,} of the {owed:,} that were in the topic"]


def _exported(
    spec: StreamSpec,
    ranges: Mapping[int, Sequence[TopicRange]],
    into: Path,
    lost: Sequence[TopicRange],
    copied: CopiedTopic | None,
) -> dict[int, list[Path]]:
    """Batch -> files with the records that it read of the topic."""
    from streamwarden.sources.kafka.export import export_copied, export_topic, isolation_of

    committed = {batch: without(parts, lost) for batch, parts in ranges.items()}
    known = connection(str(spec.source.connection))
    if copied is not None:
        return export_copied(known, committed, copied, into, isolation=isolation_of(spec.source))
    return export_topic(known, committed, into)


def _checkpoint(spec: StreamSpec) -> Location:
    return open_path(spec.checkpoint, spec.storage.connection)


def load_oracle(job: Path) -> Oracle:
    """The oracle of a job. Raises VerificationError if there is none or it cannot be imported."""
    file = job.parent / "oracles" / job.name
    if not file.is_file():
        raise VerificationError(
            "the job has no oracle",
            expected="a file with the function expected(inputs, facts)",
            where=str(file),
            next_step="write it from the question that the job answers, without importing the job",
        )
    name = f"streamwarden_oracle_{file.stem}"
    found = importlib.util.spec_from_file_location(name, file)
    assert found is not None  # it is a .py file
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        found.loader.exec_module(module)
    except Exception as error:  # whatever the oracle's author's code raises
        raise VerificationError(
            f"the oracle cannot be imported: {type(error).__name__}: {error}",
            expected="a module that imports",
            where=str(file),
            next_step="correct it",
        ) from error
    if not callable(getattr(module, "expected", None)):
        raise VerificationError(
            "the oracle has no function `expected`",
            expected="expected(inputs, facts) -> Expectation",
            where=str(file),
            next_step="name it so",
        )
    return cast(Oracle, module.expected)


def read_facts(
    spec: StreamSpec,
    *,
    first: int = 0,
    folders: Sequence[str] = (),
    starts: Sequence[Start] = (),
    ended: bool = False,
) -> RunFacts:
    """What an oracle may know of a run: its committed batches' files, watermarks, times, and the stream's settings that
    decide what comes out. Raises VerificationError if the checkpoint's logs are not whole.

    Args:
        folders: local ones that hold the input of each source, where the sources' own are not local.
        starts, ended: see `RunFacts`; they do not come from the checkpoint.
    """
    checkpoint = _checkpoint(spec)
    try:
        position = log_position(checkpoint)
        committed = position.committed
        last = -1 if committed is None else committed
        logs = [file_source_log(checkpoint, source) for source in range(max(1, len(spec.source.parts)))]
        files = {
            batch: [name for log in logs for name in log.get(batch, ())]
            for batch in sorted(set().union(*logs))
            if batch <= last
        }
        planned = {batch: record for batch, record in all_offsets(checkpoint).items() if batch <= last}
        moved = dict(zip(spec.source.folders, folders, strict=True)) if folders else {}
        paths = {batch: tuple(_input_path(name, moved) for name in names) for batch, names in files.items()}
        state = state_fields(checkpoint)
    except (CheckpointError, Damaged, OSError, ValueError) as error:
        raise _unknown_input(checkpoint.path, error) from error
    return RunFacts(
        files=paths,
        watermarks={batch: record.watermark_ms for batch, record in planned.items()},
        committed=committed,
        first=first,
        times={batch: record.timestamp_ms for batch, record in planned.items()},
        state={batch: fields for batch, fields in state.items() if batch <= last},
        args=spec.args,
        options=spec.source.options,
        ttl=spec.state.ttl,
        starts=tuple(starts),
        ended=ended and _runs_without_data(spec),
        planned=position.planned,
        rate=_read_rate(spec) if isinstance(spec.source, RateSource) else None,
    )


def _runs_without_data(spec: StreamSpec) -> bool:
    """Whether Spark runs a batch without data when only the watermark moved. The stream's file decides, not its job."""
    return spec.trigger.available_now and spec.spark.conf.get(WITHOUT_DATA, "true").lower() != "false"


def _disorder(spec: StreamSpec, facts: RunFacts, bounded_from: int | None) -> list[str]:
    """Of files on this host, whose times are those that Spark saw."""
    latest_first = spec.source.options.get("latestFirst", "false").lower() == "true"
    foreign = not isinstance(spec.source, FilesSource) or "source" in spec.in_object_store
    if bounded_from is None or latest_first or foreign:
        return []
    files = {batch: paths for batch, paths in facts.files.items() if batch >= bounded_from}
    here = {path for paths in files.values() for path in paths if path.is_file()}
    return disorder(files, {path: path.stat().st_mtime_ns // 1_000_000 for path in here})


def _stale_entries(facts: RunFacts, output: Output) -> list[str]:
    newest = output.manifest.newest if output.manifest else None
    return stale_entries(facts.starts, newest=newest, planned=facts.planned)


def _input_path(uri: str, moved: Mapping[str, str]) -> Path:
    """Where a file that a batch read is on this host. Raises ValueError if it is nowhere."""
    folder, _, name = to_path(uri).rpartition("/")
    return Path(moved[folder], name) if folder in moved else local_path(uri)


def _unknown_input(checkpoint: str, why: object) -> VerificationError:
    return VerificationError(
        f"the checkpoint does not say what was read: {why}",
        expected="whole logs in offsets/, commits/ and sources/, and state schemas",
        where=checkpoint,
        next_step="run `streamwarden inspect` on it",
    )


def _read_rate(spec: StreamSpec) -> RateFacts:
    """What the checkpoint says of a rate source: when it began and where each batch ended."""
    checkpoint = _checkpoint(spec)
    try:
        ends = {batch: record.sources[0] for batch, record in all_offsets(checkpoint).items()}
        began = int(read_log_file(checkpoint / SOURCES / "0" / "0").lines[0])
    except (CheckpointError, Damaged, OSError, ValueError, IndexError) as error:
        raise VerificationError(
            f"the checkpoint does not say what the rate source gave: {error}",
            expected="offsets/ and sources/0/0, as Spark wrote them",
            where=spec.checkpoint,
            next_step="run `streamwarden inspect` on it",
        ) from error
    return RateFacts(
        began_ms=began,
        ends={batch: int(str(end)) for batch, end in ends.items() if end is not None},
        rows_per_second=int(spec.source.options.get("rowsPerSecond", "1")),
    )


def input_files(folder: Path) -> list[Path]:
    """The files that Spark would read in a folder: not the hidden ones. Raises VerificationError if it is not there."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_")))
    except OSError as error:
        raise VerificationError(
            f"the input cannot be listed: {error.strerror}",
            expected="the folder of the whole input",
            where=str(folder),
            next_step="restore it, or verify against a copy",
        ) from error


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


def _whole(value: object) -> int:
    """A count, of whatever type of number it is; 0 for what is none."""
    if isinstance(value, (float, Decimal)):
        return int(value) if math.isfinite(value) and value == int(value) else 0
    return value if isinstance(value, int) else 0


def _unbalanced(expectation: Expectation, actual: Sequence[tuple[tuple[object, ...], tuple[object, ...]]]) -> list[str]:
    """Conservation: what went in is in the output, still open, late, or malformed; nothing else can be."""
    if expectation.count_column is None:
        return []
    at = list(expectation.value_columns).index(expectation.count_column)
    counted = sum(_whole(values[at]) for _, values in actual)
    books = expectation.counts
    if counted == books.emitted:
        return []
    return [
        f"the books do not balance: {books.pairs} (row, window) pairs in, less {books.dropped} late, "
        f"{books.open} open, {books.emitted_before} written earlier, is {books.emitted}; the output counts {counted}"
    ]
