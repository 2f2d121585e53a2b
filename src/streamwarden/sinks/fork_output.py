"""Reads the output of a script's query in a fork: files of Spark's own sink, or captured rows.

The fork makes both, see `lifecycle.forks.scripts` and `spark.captures`. No stream declares such an output.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.captures import AGAIN, attempt_of, batch_name
from streamwarden.lifecycle.forks.scripts import ForkQuery, OutputKind
from streamwarden.sinks.files.data import PARQUET, ReadFiles, read_files
from streamwarden.sinks.files.formats import FileFormat, FilesSink
from streamwarden.sinks.output import Output, Part
from streamwarden.sinks.own_writes import read_written
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.column_types import ColumnType

BATCH: Final = "batch"
"""The column with the number of the batch that handed a row over; a column of the query with this name wins."""

AGAIN_NOTE: Final = "batches_handed_over_again"
"""The note with the number of executions of a batch after its first whole one."""


def read_query(query: ForkQuery, batches: Sequence[int]) -> Output:
    """The output of a query that keeps one.

    Args:
        batches: the committed ones, ascending.

    Raises VerificationError if it cannot be read.
    """
    path = str(query.output)
    if query.kind is OutputKind.WRITES:
        return read_written(Path(path))
    if query.kind is OutputKind.CAPTURE:
        return read_captured(path, batches)
    parquet = query.format == "parquet"
    sink = ParquetSink(path=path) if parquet else FilesSink(path=path, format=FileFormat(query.format))
    spec = StreamSpec(name=query.name, job="", checkpoint=query.checkpoint, sink=sink)
    return sink.read(spec, {}, committed=batches[-1], first=0, deduplicated=True)


def read_captured(folder: str, batches: Sequence[int]) -> Output:
    """The rows of the newest execution of each batch, each with its batch.

    Args:
        batches: the committed ones. A batch that is not among them was cut, and its rows are not read.

    A batch without a capture is a problem, and so is one whose executions handed over different rows.
    """
    root = Path(folder)
    columns: list[str] = []
    types: dict[str, list[ColumnType]] = {}
    files_of: dict[int, ReadFiles] = {}
    problems, files = [], 0
    for batch in batches:
        here = root / batch_name(batch)
        if not here.is_dir():
            problems.append(f"batch {batch} is committed, and its rows were never handed over")
            continue
        read = files_of[batch] = _read(here)
        files += len(list(here.glob("*.parquet")))
        problems += [f"a captured file of batch {batch} cannot be read: {reason}" for _, reason in read.unreadable]
        columns += [name for name in read.columns if name not in columns]
        for name, kinds in read.types.items():
            column_types = types.setdefault(name, [])
            column_types += [kind for kind in kinds if kind not in column_types]
    again = _again(root, files_of)
    name = BATCH if BATCH not in columns else f"_{BATCH}"
    return Output(
        columns=(name, *columns),
        parts=[_numbered(part, name, batch) for batch, read in files_of.items() for part in read.parts],
        files=files,
        problems=(*problems, *(problem for _, problem in again if problem)),
        notes={AGAIN_NOTE: len(again)} if again else {},
        types=types,
    )


def _read(folder: Path) -> ReadFiles:
    return read_files(open_path(str(folder)), [str(file) for file in sorted(folder.glob("*.parquet"))], PARQUET)


def _again(root: Path, found: Mapping[int, ReadFiles]) -> list[tuple[int, str | None]]:
    """(batch, problem) of each earlier execution. An execution that is repeated hands over the same rows."""
    cases = []
    for earlier in sorted((root / AGAIN).glob("*")) if (root / AGAIN).is_dir() else ():
        batch = attempt_of(earlier.name)
        if batch is None or batch not in found:
            continue
        same = _counted(_read(earlier)) == _counted(found[batch])
        cases.append((batch, None if same else f"batch {batch} was executed again and handed over other rows"))
    return cases


def _counted(read: ReadFiles) -> Counter[str]:
    order = sorted(read.columns)
    return Counter(repr(row) for part in read.parts for row in part.rows(order))


def _numbered(part: Part, name: str, batch: int) -> Part:
    """The rows with a column that has the number of their batch."""
    import pyarrow as pa

    numbers = pa.array([batch] * part.count, pa.int64())
    return replace(part, table=part.table.append_column(name, numbers), batches=numbers)
