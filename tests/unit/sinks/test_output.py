"""An output is read through its manifest, and a manifest that lacks something is said to."""

import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import VerificationError
from streamwarden.sinks.files.data import PARQUET, read_files
from streamwarden.sinks.files.output import read_output


class Sink:
    """Writes a folder as Spark's file sink does: data files first, then the manifest's entry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "_spark_metadata").mkdir(parents=True)

    def data(self, name: str, *numbers: int) -> Path:
        path = self.folder / name
        when = [datetime(2013, 1, 1, number, tzinfo=UTC) for number in numbers]
        table = pa.table({"at": pa.array(when, pa.timestamp("us", tz="UTC")), "n": pa.array(numbers, pa.int64())})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)  # as Spark does
        return path

    def entry(self, name: str, *files: Path, action: str = "add") -> Path:
        entry = self.folder / "_spark_metadata" / name
        lines = [json.dumps({"path": f"file://{quote(str(file))}", "size": 1, "action": action}) for file in files]
        entry.write_text("\n".join(["v1", *lines]))
        return entry

    def batch(self, number: int) -> None:
        self.entry(str(number), self.data(f"part-{number}.snappy.parquet", number))

    def numbers(self, **how: int) -> list[int]:
        return sorted(int(str(values[0])) for _, values in read_output(self.folder, **how).keyed(("at",), ("n",)))


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """Three batches, in a folder whose name needs percent-encoding."""
    made = Sink(tmp_path / "out put %41é")
    for number in range(3):
        made.batch(number)
    return made


def test_every_row_of_every_named_file_is_read(sink: Sink) -> None:
    output = read_output(sink.folder, committed=2)
    assert sink.numbers() == [0, 1, 2]
    assert (output.files, output.orphans, output.problems) == (3, (), ())
    assert output.columns == ("at", "n")


def test_timestamps_are_utc_instants(sink: Sink) -> None:
    keys = [key for key, _ in read_output(sink.folder).keyed(("at",), ())]
    assert (datetime(2013, 1, 1, 2, tzinfo=UTC),) in keys


def test_an_orphan_file_of_a_batch_that_was_cut_is_noted_and_not_counted(sink: Sink) -> None:
    sink.data("part-orphan.parquet", 9)
    output = read_output(sink.folder, committed=2)
    assert sink.numbers() == [0, 1, 2]
    assert output.orphans == ("part-orphan.parquet",)
    assert output.problems == ()


def test_files_of_a_job_that_was_cut_are_no_output_at_all(sink: Sink) -> None:
    (sink.folder / "_temporary").mkdir()
    sink.data("_temporary/part-x.parquet", 9)
    assert read_output(sink.folder).orphans == ()


def test_a_compact_entry_stands_for_all_before_it(sink: Sink) -> None:
    files = [sink.folder / f"part-{number}.snappy.parquet" for number in range(2)]
    for number in range(2):
        (sink.folder / "_spark_metadata" / str(number)).unlink()
    sink.entry("1.compact", *files)
    assert sink.numbers(committed=2) == [0, 1, 2]
    assert read_output(sink.folder, committed=2).problems == ()


def test_entries_that_a_compact_one_repeats_are_not_counted_twice(sink: Sink) -> None:
    sink.entry("2.compact", *(sink.folder / f"part-{number}.snappy.parquet" for number in range(3)))
    assert sink.numbers() == [0, 1, 2]


def test_hidden_and_foreign_files_among_the_entries_are_ignored(sink: Sink) -> None:
    for name in (".3.crc", ".3.tmp", "3.tmp", "notes.txt"):
        (sink.folder / "_spark_metadata" / name).write_text("x")
    manifest = read_output(sink.folder).manifest
    assert manifest is not None
    assert manifest.newest == 2


def test_a_deleted_file_is_not_read(sink: Sink) -> None:
    sink.entry("3", sink.folder / "part-0.snappy.parquet", action="delete")
    assert sink.numbers() == [1, 2]


def test_a_batch_without_rows_has_an_entry_that_names_nothing(sink: Sink) -> None:
    sink.entry("3")
    assert read_output(sink.folder, committed=3).problems == ()


def test_a_file_that_is_named_twice_is_read_twice(sink: Sink) -> None:
    sink.entry("3", sink.folder / "part-0.snappy.parquet")
    assert sink.numbers() == [0, 0, 1, 2]


@pytest.mark.parametrize("damage", ["lost", "empty"])
def test_a_gap_in_the_manifest_is_a_problem(sink: Sink, damage: str) -> None:
    """Spark runs on over it, and its output is lost without a word."""
    entry = sink.folder / "_spark_metadata" / "1"
    entry.unlink() if damage == "lost" else entry.write_text("")
    output = read_output(sink.folder, committed=2)
    assert output.problems == ("the manifest has no entry for the committed batch 1",)
    assert output.orphans == ("part-1.snappy.parquet",)
    assert sink.numbers() == [0, 2]


def test_a_manifest_without_an_entry_for_the_only_batch_is_a_problem(sink: Sink) -> None:
    """Batch 0 is a batch like any other."""
    for entry in (sink.folder / "_spark_metadata").iterdir():
        entry.unlink()
    assert read_output(sink.folder, committed=0).problems == ("the manifest has no entry for the committed batch 0",)
    assert read_output(sink.folder).problems == ()


def test_a_manifest_that_ends_before_the_newest_commit_is_a_problem(sink: Sink) -> None:
    assert read_output(sink.folder, committed=4).problems == (
        "the manifest has no entry for the committed batch 3",
        "the manifest has no entry for the committed batch 4",
    )


def test_a_fork_whose_output_begins_later_owes_no_earlier_entries(sink: Sink) -> None:
    (sink.folder / "_spark_metadata" / "0").unlink()
    assert read_output(sink.folder, committed=2, first=1).problems == ()
    assert read_output(sink.folder, committed=2, first=0).problems != ()


def test_a_file_that_is_named_and_gone_is_a_problem(sink: Sink) -> None:
    (sink.folder / "part-1.snappy.parquet").unlink()
    output = read_output(sink.folder, committed=2)
    assert output.problems == ("the manifest names part-1.snappy.parquet, which is not there",)
    assert sink.numbers() == [0, 2]


def test_without_any_manifest_every_parquet_file_counts(sink: Sink) -> None:
    shutil.rmtree(sink.folder / "_spark_metadata")
    assert sink.numbers() == [0, 1, 2]
    assert read_output(sink.folder).manifest is None


def test_a_manifest_that_is_gone_although_batches_committed_is_a_problem(sink: Sink) -> None:
    shutil.rmtree(sink.folder / "_spark_metadata")
    assert "3 committed batches and no _spark_metadata" in read_output(sink.folder, committed=2).problems[0]


def test_a_stream_that_wrote_no_row_has_an_empty_output(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "out")
    sink.entry("0")
    output = read_output(sink.folder, committed=0)
    assert (output.rows, output.problems) == ([], ())
    assert output.keyed(("at",), ("n",)) == []


def test_no_folder_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="there is no output"):
        read_output(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["no_parquet", "empty", "page", "footer", "year"])
def test_a_data_file_that_cannot_be_read_is_named_and_its_rows_are_lost(sink: Sink, damage: str) -> None:
    file = sink.folder / "part-1.snappy.parquet"
    whole = file.read_bytes()
    far = pa.table({"at": pa.array([253_402_300_800_000_000], pa.timestamp("us", tz="UTC")), "n": pa.array([1])})
    year_10000 = io.BytesIO()
    pq.write_table(far, year_10000)
    file.write_bytes(
        {
            "year": year_10000.getvalue(),
            "no_parquet": b"PAR1 cut off",
            "empty": b"",
            "page": whole[:4] + bytes(40) + whole[44:],
            "footer": whole[:-20] + bytes(20),
        }[damage]
    )
    output = read_output(sink.folder, committed=2)
    (problem,) = output.problems
    assert problem.startswith("the data file part-1.snappy.parquet cannot be read, and its rows are lost: ")
    assert sink.numbers() == [0, 2]


def test_a_storage_that_is_gone_while_its_files_are_read_leaves_no_verdict(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(VerificationError, match="cannot be read") as error:
        read_files(open_path(gone), [f"{gone}/part-0.parquet"], PARQUET)
    assert error.value.expected == "a storage that answers"


def test_files_may_differ_in_their_columns_and_types(sink: Sink) -> None:
    file = sink.folder / "part-1.snappy.parquet"
    pq.write_table(pa.table({"n": pa.array([1.0]), "salt": pa.array(["x"])}), file)
    output = read_output(sink.folder, committed=2)
    assert output.columns == ("at", "n", "salt")
    assert {name: [kind.shown for kind in kinds] for name, kinds in output.types.items()} == {
        "at": ["timestamp"],
        "n": ["bigint", "double"],
        "salt": ["string"],
    }
    assert [row[1:] for row in output.rows] == [(0, None), (1.0, "x"), (2, None)]
    assert output.rows[1][0] is None


def test_the_batch_of_a_file_is_known_as_long_as_the_entry_that_named_it_first_is_there(sink: Sink) -> None:
    sink.entry("2.compact", *(sink.folder / f"part-{number}.snappy.parquet" for number in range(3)))
    (sink.folder / "_spark_metadata" / "2").unlink()
    batches = read_output(sink.folder, committed=2).file_batches()
    assert batches == {f"{sink.folder}/part-{number}.snappy.parquet": number for number in range(2)}


def test_a_file_cannot_declare_a_column_as_boxed(sink: Sink) -> None:
    """The values of such a column would be unpickled."""
    boxed = pa.field("n", pa.binary(), metadata={"streamwarden": "boxed"})
    pq.write_table(pa.table([[b"cos\nsystem\n."]], schema=pa.schema([boxed])), sink.folder / "part-1.snappy.parquet")
    assert read_output(sink.folder).rows[1] == (None, b"cos\nsystem\n.")


@pytest.mark.parametrize("line", ["nonsense", '{"path": "file:///x"}', "[]", '{"path": "s3://b/x", "action": "add"}'])
def test_an_entry_that_cannot_be_understood_leaves_no_verdict(sink: Sink, line: str) -> None:
    (sink.folder / "_spark_metadata" / "1").write_text(f"v1\n{line}\n")
    with pytest.raises(VerificationError, match="an entry of the manifest reads"):
        read_output(sink.folder)


def test_a_column_that_the_output_lacks_is_null_in_each_row(sink: Sink) -> None:
    rows = read_output(sink.folder).keyed(("n",), ("flights",))
    assert sorted(rows) == [((0,), (None,)), ((1,), (None,)), ((2,), (None,))]


def test_spark_encodes_paths_and_they_are_decoded_once() -> None:
    assert Path(to_path("file:///a%20b/%2541")) == Path("/a b/%41")
