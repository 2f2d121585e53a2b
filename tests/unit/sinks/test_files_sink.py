"""The kind of sink `files`: its keys, and how the files of each format are read back."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from streamwarden.lifecycle.forks.places import Places
from streamwarden.sinks.files.formats import FileFormat, FilesSink
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.columns import report_columns
from streamwarden.verification.oracle import Expectation, RowCounts

ORC = Path(__file__).parents[2] / "data" / "orc" / "spark-4.3.0.orc"
NOON = datetime(2013, 1, 1, 12, 0, 0, 4, tzinfo=UTC)
COUNTS = RowCounts(records=0, malformed=0, pairs=0, dropped=0, emitted=0, emitted_before=0, open=0)
COLUMNS = ("id", "at", "day", "price", "ratio", "late", "note")
ROW = (7, NOON, date(2013, 1, 1), Decimal("0.10"), 0.5, True, 'a "quoted", \\text\nof two lines')
NULLS = (8, None, None, None, None, None, "")
TEXTS = {
    FileFormat.JSON: (
        '{"id":7,"at":"2013-01-01T12:00:00.000004Z","day":"2013-01-01","price":0.10,"ratio":0.5,"late":true,'
        '"note":"a \\"quoted\\", \\\\text\\nof two lines"}\n'
        '{"id":8,"at":null,"day":null,"price":null,"ratio":null,"late":null,"note":""}\n'
    ),
    FileFormat.CSV: (
        "id,at,day,price,ratio,late,note\n"
        '7,2013-01-01T12:00:00.000004Z,2013-01-01,0.10,0.5,true,"a ""quoted"", \\text\nof two lines"\n'
        '8,,,,,,""\n'
    ),
}


def expecting(columns: tuple[str, ...], row: tuple[Any, ...]) -> Expectation:
    return Expectation(
        key_columns=columns[:1], value_columns=columns[1:], rows={row[:1]: row[1:]}, counts=COUNTS, count_column=None
    )


class Folder:
    """An output folder that is written as Spark's file sink does: data files first, then the manifest's entry."""

    def __init__(self, path: Path, sink: FilesSink) -> None:
        self.path, self.sink, self.batches = path, sink, 0
        (path / "_spark_metadata").mkdir(parents=True)

    def file(self, name: str, content: bytes) -> Path:
        (self.path / name).write_bytes(content)
        return self.path / name

    def batch(self, name: str, content: bytes) -> None:
        line = json.dumps({"path": f"file://{self.file(name, content)}", "size": 1, "action": "add"})
        (self.path / "_spark_metadata" / str(self.batches)).write_text(f"v1\n{line}")
        self.batches += 1

    def read(self, expectation: Expectation, *, committed: int | None = None) -> Output:
        spec = StreamSpec(name="a", job="a.py", checkpoint="/c", sink=self.sink)
        return self.sink.read(spec, expectation.samples(), committed=committed, first=0, deduplicated=True)


def folder(path: Path, file_format: FileFormat, **options: str) -> Folder:
    return Folder(path / "out", FilesSink(path=str(path / "out"), format=file_format, options=options))


@pytest.mark.parametrize("file_format", [FileFormat.JSON, FileFormat.CSV])
def test_every_value_of_text_is_read_as_the_oracles_type(tmp_path: Path, file_format: FileFormat) -> None:
    made = folder(tmp_path, file_format)
    made.batch(f"part-0.{file_format}", TEXTS[file_format].encode())
    output = made.read(expecting(COLUMNS, ROW), committed=0)
    assert (output.columns, output.problems) == (COLUMNS, ())
    assert list(output.rows) == [ROW, NULLS], "a null and an empty text differ"
    assert [type(value) for value in output.rows[0]] == [type(value) for value in ROW]


def test_a_csv_file_may_have_another_separator(tmp_path: Path) -> None:
    made = folder(tmp_path, FileFormat.CSV, sep=";")
    made.batch("part-0.csv", b"id;note\n1;a,b\n")
    assert made.read(expecting(("id", "note"), (1, "a,b"))).rows == [(1, "a,b")]


@pytest.mark.parametrize("text", ["1_0", " 1", "x", "1.0"])
def test_a_text_that_is_not_the_oracles_type_stays_a_text_and_is_wrong(tmp_path: Path, text: str) -> None:
    made = folder(tmp_path, FileFormat.CSV)
    made.batch("part-0.csv", f"id,n\n1,{text}\n".encode())
    assert made.read(expecting(("id", "n"), (1, 1))).rows == [(1, text)]


def test_an_orc_file_of_sparks_has_types(tmp_path: Path) -> None:
    """tests/data/make_orc.py wrote it: an instant, and a wall clock, which ORC itself stores as a number."""
    made = folder(tmp_path, FileFormat.ORC)
    clock = NOON.replace(tzinfo=None)
    made.batch("part-0.snappy.orc", ORC.read_bytes())
    output = made.read(expecting(("id", "at", "wall"), (1, NOON, clock)))
    assert output.rows == [(1, NOON, clock)]
    assert [[kind.shown for kind in output.types[name]] for name in ("id", "at", "wall")] == [
        ["bigint"],
        ["timestamp"],
        ["timestamp_ntz"],
    ]


def test_text_is_one_column(tmp_path: Path) -> None:
    made = folder(tmp_path, FileFormat.TEXT)
    made.batch("part-0.txt", "ein Wört\n\nlast\n".encode())
    output = made.read(expecting(("value",), ("last",)))
    assert output.rows == [("ein Wört",), ("",), ("last",)]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("deflate", zlib.compress)]
)
def test_compressed_files_are_expanded_and_a_damaged_one_is_a_problem(
    tmp_path: Path, suffix: str, compress: Any
) -> None:
    made = folder(tmp_path, FileFormat.TEXT)
    made.batch(f"part-0.txt.{suffix}", compress(b"one\n"))
    made.batch(f"part-1.txt.{suffix}", compress(b"two\n" * 50)[:-9])
    output = made.read(expecting(("value",), ("one",)), committed=1)
    assert output.rows == [("one",)]
    (problem,) = output.problems
    assert problem.startswith(f"the data file part-1.txt.{suffix} cannot be read, and its rows are lost")


@pytest.mark.parametrize("file_format", list(FileFormat))
def test_only_the_files_of_the_manifest_count(tmp_path: Path, file_format: FileFormat) -> None:
    """An orphan file is not counted, a lost file and a lost entry are problems; for each format."""
    table = pa.table({"value": ["a"]})
    orc.write_table(table, tmp_path / "orc")
    content = {
        FileFormat.JSON: b'{"value":"a"}\n',
        FileFormat.CSV: b"value\na\n",
        FileFormat.ORC: (tmp_path / "orc").read_bytes(),
        FileFormat.TEXT: b"a\n",
    }[file_format]
    suffix = "txt" if file_format is FileFormat.TEXT else str(file_format)
    made, expected = folder(tmp_path, file_format), expecting(("value",), ("a",))
    for number in range(3):
        made.batch(f"part-{number}.{suffix}", content)
    made.file(f"part-9.{suffix}", content)
    output = made.read(expected, committed=2)
    assert (len(output.rows), output.orphans, output.problems) == (3, (f"part-9.{suffix}",), ())
    (made.path / f"part-0.{suffix}").unlink()
    (made.path / "_spark_metadata" / "1").unlink()
    output = made.read(expected, committed=2)
    assert len(output.rows) == 1
    assert output.problems == (
        "the manifest has no entry for the committed batch 1",
        f"the manifest names part-0.{suffix}, which is not there",
    )


def test_a_csv_column_can_be_of_any_type_that_has_one_text(tmp_path: Path) -> None:
    made = folder(tmp_path, FileFormat.CSV)
    made.batch("part-0.csv", b"id,n\n1,1\n")
    output = made.read(expecting(("id", "n"), (1, 1)))
    from streamwarden.verification.comparing.column_types import parse_type

    def problems(kind: str) -> list[str | None]:
        return [each.problem for each in report_columns(("id",), {"n": parse_type(kind)}, output.types)][:1]

    assert problems("bigint") == [None]
    assert problems("array<bigint>") != [None]


def test_a_fork_writes_and_inherits_files_below_its_own_folder(tmp_path: Path) -> None:
    made = folder(tmp_path, FileFormat.JSON, compression="gzip")
    for number in range(2):
        made.batch(f"part-{number}.json.gz", gzip.compress(b"{}\n"))
    origin = StreamSpec(name="a", job="a.py", checkpoint="/c", sink=made.sink)
    places = Places.under(str(tmp_path / "fork"))
    assert made.sink.forked(places) == FilesSink(
        path=places.output, format=FileFormat.JSON, options={"compression": "gzip"}
    )
    targets = {Path(step.target).name for step in made.sink.history(origin, places, 0)}
    assert targets == {"0", "part-0.json.gz"}, "batch 1 is not the fork's"
    assert all(step.target.startswith(places.output) for step in made.sink.history(origin, places, 0))


@pytest.mark.parametrize(
    ("file_format", "options", "mode", "wrong"),
    [
        (FileFormat.JSON, {"compression": "gzip"}, OutputMode.APPEND, []),
        (FileFormat.CSV, {"sep": ";"}, OutputMode.APPEND, []),
        (FileFormat.ORC, {"compression": "zstd"}, OutputMode.APPEND, []),
        (FileFormat.JSON, {"compression": "lz4"}, OutputMode.APPEND, ["compression"]),
        (FileFormat.JSON, {"timestampFormat": "yyyy"}, OutputMode.APPEND, ["timestampFormat"]),
        (FileFormat.CSV, {"sep": "::"}, OutputMode.APPEND, ["sep"]),
        (FileFormat.TEXT, {"sep": ";"}, OutputMode.APPEND, ["sep"]),
        (FileFormat.TEXT, {}, OutputMode.UPDATE, ["mode"]),
    ],
)
def test_what_cannot_be_read_back_is_refused(
    file_format: FileFormat, options: dict[str, str], mode: OutputMode, wrong: list[str]
) -> None:
    sink = FilesSink(path="/o", format=file_format, options=options, mode=mode)
    assert [str(problem.key[-1]) for problem in sink.problems()] == wrong
