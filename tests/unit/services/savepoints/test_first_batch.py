"""The rows of a fork's first batch are compared with those that its stream wrote, or that is not said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.sink import read_entry
from streamwarden.services.savepoints.first_batch import NOT_COMPARED, compared
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.stream.spec import StreamSpec
from support.checkpoints import recorded
from support.checkpoints.recorded import Unpack, stream_of

BATCH = 12


@pytest.fixture
def pair(unpack: Unpack, tmp_path: Path) -> tuple[StreamSpec, StreamSpec]:
    """A stream, and what executed the same batches."""
    for name in ("origin", "fork"):
        unpack("spark-4.3.0-changelog", tmp_path / name)
    return stream_of(tmp_path / "origin", files=0), stream_of(tmp_path / "fork", files=0)


def data_file(spec: StreamSpec) -> Path:
    """A file with rows that the batch wrote."""
    entry = read_entry(open_path(spec.sink.path) / "_spark_metadata", BATCH, compact=False)
    return next(Path(file.path) for file in entry.files if pq.read_table(file.path).num_rows)


def test_equal_rows_are_said_to_be_equal(pair: tuple[StreamSpec, StreamSpec]) -> None:
    assert compared(*pair, BATCH) == "its 3 rows are those that the stream wrote for that batch"


def rewrite(spec: StreamSpec, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of the batch's file."""
    file = data_file(spec)
    table, size = pq.read_table(file), file.stat().st_size
    file.unlink()
    pq.write_table(change(table), file)
    entry = Path(str(spec.sink.path), "_spark_metadata", str(BATCH))
    recorded.replace(
        entry, entry.read_bytes().replace(f'"size":{size}'.encode(), f'"size":{file.stat().st_size}'.encode())
    )


def test_rows_that_differ_are_counted(pair: tuple[StreamSpec, StreamSpec]) -> None:
    rewrite(pair[1], lambda table: table.slice(0, table.num_rows - 1))
    assert compared(*pair, BATCH).endswith("wrote for that batch: 0 are new and 1 are missing")


def test_rows_with_a_window_are_compared(pair: tuple[StreamSpec, StreamSpec]) -> None:
    def with_window(table: pa.Table) -> pa.Table:
        return table.append_column("window", pa.array([{"start": row} for row in range(table.num_rows)]))

    for spec in pair:
        rewrite(spec, with_window)
    assert compared(*pair, BATCH) == "its 3 rows are those that the stream wrote for that batch"


@pytest.mark.parametrize("case", ["other input", "other watermark", "topic", "lost file", "purged"])
def test_what_cannot_be_compared_is_not(pair: tuple[StreamSpec, StreamSpec], case: str) -> None:
    stream, fork = pair
    match case:
        case "other input":
            log = Path(fork.checkpoint, "sources/0", str(BATCH))
            recorded.replace(log, log.read_bytes().replace(b"in%20", b"on%20"))
        case "other watermark":
            plan = Path(fork.checkpoint, "offsets", str(BATCH))
            recorded.replace(plan, plan.read_bytes().replace(b'"batchWatermarkMs":1', b'"batchWatermarkMs":2'))
        case "topic":
            stream = replace(stream, sink=KafkaSink(connection="k", topic="t", key=("k",)))
        case "lost file":
            data_file(stream).unlink()
        case _:
            Path(stream.checkpoint, "offsets", str(BATCH)).unlink()
    assert compared(stream, fork, BATCH) == NOT_COMPARED
