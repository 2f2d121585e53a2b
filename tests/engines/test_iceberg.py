"""Streams into Iceberg tables, on the Spark that Iceberg supports: killed in mid-batch, and judged by a reader that is
not Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.adapters.iceberg.metadata import BATCH, QUERY
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.cli.exit_codes import Exit
from streamwarden.sinks.iceberg.other_writer import FolderCatalog
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.stream.spec import StreamSpec
from support.spark.drill_project import audited, drill_project, run_and_stop, run_drill
from support.spark.environments import spark_with

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def spark() -> str:
    return spark_with("iceberg")


@pytest.mark.parametrize(
    "sink",
    [
        "{kind: iceberg, path: output/flights}",
        "{kind: iceberg, path: output/flights, mode: update, key: [window_start, origin, carrier]}",
    ],
    ids=["append", "update"],
)
def test_a_killed_driver_writes_each_batch_once(sink: str, spark: str, flights: Path, tmp_path: Path) -> None:
    with drill_project(
        tmp_path,
        inputs=flights,
        fault="kill_driver",
        oracle="twin",
        spark=spark,
        sink=sink,
        batches=12,
        min_records=1000,
        options={"strikes": 2},
    ) as workspace:
        run = run_drill(workspace)
    assert run.passed, run.reason
    assert run.facts["twin"]["outcome"]["exactly_once"]


SMALL: dict[str, Any] = {
    "source": "{{path: {inputs}, format: json, max_files_per_trigger: 1}}",
    "sink": "{kind: iceberg, path: output/flights}",
    "min_records": 1000,
    "batches": 12,
}


def test_an_audit_balances_a_table_and_finds_a_lost_a_double_and_a_missing_file_of_rows(
    spark: str, flights: Path, tmp_path: Path
) -> None:
    with drill_project(tmp_path, inputs=flights, fault="kill_driver", spark=spark, **SMALL) as workspace:
        spec = run_and_stop(workspace, 5)
        whole = audited(workspace)
        assert whole.code == Exit.OK, whole
        file = newest_file(spec)
        rows = pq.read_table(file)
        first = rows.slice(0, 1)
        for damaged, sign in ((rows.slice(1), 1), (pa.concat_tables([rows, first]), -1)):
            pq.write_table(damaged, file)
            found = audited(workspace)
            assert found.code == Exit.BAD, found
            (entry,) = found.json["worst"]
            assert entry["differences"]["flights"] == sign * first["flights"][0].as_py(), found.json
        file.unlink()
        found = audited(workspace)
        assert found.code == Exit.BAD, found
        assert f"names {file.name}, which is not there" in str(found.json["problems"])


def test_a_fork_goes_on_with_the_rows_of_its_origin(spark: str, flights: Path, tmp_path: Path) -> None:
    """It begins two batches before the newest one of a stream that stopped in the middle of its input. The job's oracle
    knows every row of the whole input, so that those of the origin have to be in the fork's table."""
    with drill_project(tmp_path, inputs=flights, fault="kill_driver", spark=spark, rewind=2, **SMALL) as workspace:
        spec = run_and_stop(workspace, 5)
        before = table_of(spec)
        run = run_drill(workspace)
        assert table_of(spec) == before
    assert before is not None
    assert run.passed, run.reason


@pytest.mark.parametrize("has_it", [True, False], ids=["said rightly", "said wrongly"])
def test_a_driver_that_cannot_know_whether_the_table_has_a_batch_writes_nothing_until_a_person_says_so(
    has_it: bool, spark: str, flights: Path, tmp_path: Path
) -> None:
    """A crash before `commits/N`; then another program compacts the table and expires every snapshot of the stream. The
    person's way out is a snapshot without rows. Said wrongly it doubles the rows of the batch: the negative control."""
    with drill_project(tmp_path, inputs=flights, fault="kill_driver", spark=spark, **SMALL) as workspace:
        spec = run_and_stop(workspace, 4)
        newest = max(int(file.name) for file in Path(spec.checkpoint, "commits").iterdir() if file.name.isdigit())
        for name in (f"{newest}", f".{newest}.crc"):
            Path(spec.checkpoint, "commits", name).unlink()
        assert isinstance(spec.sink, IcebergSink)
        other, before = spec.sink.other_writer(spec), keys(spec)
        assert other.compact()
        assert other.clean().versions
        driver = workspace.fleet.start(spec, launched_by="test").record
        ended = workspace.fleet.wait(driver.driver_id, timeout=300).exit
        assert ended is not None
        assert (ended.cause, ended.curable) == ("table_batch_unknown", False), ended
        assert f"may have written batch {newest}" in ended.message
        assert keys(spec) == before
        table = FolderCatalog(spec).load()
        assert table is not None
        said = {QUERY: read_query_id(open_path(spec.checkpoint)) or "", BATCH: str(newest if has_it else newest - 1)}
        table.append(table.schema().as_arrow().empty_table(), snapshot_properties=said)
        run_and_stop(workspace, newest + 2)
        after = keys(spec)
    assert (len(after) == len(set(after))) is has_it
    assert set(after) > set(before)


def keys(spec: StreamSpec) -> list[object]:
    """The key of each row of the table: a window is written once."""
    output = spec.sink.read(spec, {}, committed=None, first=0, deduplicated=True)  # type: ignore[attr-defined]
    return sorted((key for key, _ in output.keyed(("window_start", "origin", "carrier"), ())), key=str)


def newest_file(spec: StreamSpec) -> Path:
    """The newest data file of the table that has rows, without the checksum that Hadoop gave it."""
    files = sorted(Path(str(spec.sink.path), "data").glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    file = next(file for file in reversed(files) if pq.read_metadata(file).num_rows)
    file.with_name(f".{file.name}.crc").unlink()
    return file
