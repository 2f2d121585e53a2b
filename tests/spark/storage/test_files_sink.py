"""The sink of files with real Spark, in each format: written, interrupted, verified; and what is broken is found.

Numbered scenario, for each format: (1) orphan files of a killed batch are there before the run, which reads all input;
(2) the verification counts none of them and finds every row; (3) a row that is written twice, a data file that is lost
and an entry of the manifest that is lost are each found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.sinks.files.formats import FileFormat, FilesSink
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.spark.drivers import project
from support.spark.sessions import run_in
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "id BIGINT, key INT, at TIMESTAMP", required=["id"])
    if spec.sink.spark_format == "text":
        return rows.select(F.concat_ws("/", "id", "key").alias("line"))
    note = F.when(F.col("key") == 0, None).when(F.col("key") == 1, "").otherwise(' a "quoted", \\\\text\\nand more ')
    price = (F.col("id") / 100).cast("decimal(10,2)")
    at = F.col("at") + F.expr("INTERVAL 4 MICROSECONDS")
    return rows.select("id", at.alias("at"), F.to_date("at").alias("day"), price.alias("price"), note.alias("note"))
"""

ORACLE = """
import json
from datetime import datetime, timedelta
from decimal import Decimal

from streamwarden.verification.batches import replay_input
from streamwarden.verification.oracle import Expectation, RowCounts

NOTES = {0: None, 1: ""}


def expected(inputs, facts):
    run = replay_input(inputs, facts, decode=json.loads, at=lambda row: 0, delay=None)
    read = [row for batch in run.batches.values() for row in batch]
    counts = RowCounts(
        records=run.records, malformed=0, pairs=run.records, dropped=0, emitted=len(read), emitted_before=0, open=0
    )
    if SINGLE:
        rows = {(f"{row['id']}/{row['key']}",): () for row in read}
        return Expectation(key_columns=("value",), value_columns=(), rows=rows, counts=counts, problems=run.problems)
    rows = {}
    for row in read:
        at = datetime.fromisoformat(row["at"]) + timedelta(microseconds=4)
        price = (Decimal(row["id"]) / 100).quantize(Decimal("0.01"))
        note = NOTES.get(row["key"], ' a "quoted", \\\\text\\nand more ')
        rows[row["id"],] = (at, at.date(), price, note)
    return Expectation(
        key_columns=("id",),
        value_columns=("at", "day", "price", "note"),
        rows=rows,
        counts=counts,
        problems=run.problems,
    )
"""
FILES, ROWS = 3, 20
SUFFIX = {FileFormat.TEXT: "txt"}


@dataclass(frozen=True)
class Ran:
    """A run that has ended, of one format."""

    spec: StreamSpec
    output: Path
    suffix: str

    def data(self) -> list[Path]:
        """Data files with rows, that the manifest lists, in the order of their batches."""
        found = []
        for number in range(FILES):
            lines = (self.output / SINK_LOG / str(number)).read_text().splitlines()[1:]
            found += [Path(json.loads(line)["path"].removeprefix("file://")) for line in lines]
        return found


@pytest.fixture(params=list(FileFormat), ids=str, scope="module")
def ran(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    file_format: FileFormat = request.param
    with project(tmp_path_factory.mktemp(str(file_format))) as made:
        made.publish(FILES, rows=ROWS)
        sink = FilesSink(path=str(made.data / "output" / "rows"), format=file_format)
        spec = made.spec("rows", JOB, sink=sink, trigger=TriggerSpec(available_now=True))
        (Path(spec.job).parent / "oracles").mkdir()
        made.job("oracles/rows", ORACLE.replace("SINGLE", str(file_format is FileFormat.TEXT)))
        output, suffix = Path(sink.path), SUFFIX.get(file_format, str(file_format))
        output.mkdir(parents=True)
        (output / f"part-00000-orphan.{suffix}").write_text("left by a batch that was killed\n")
        run_in(spark, spec)
        yield Ran(spec, output, suffix)


def test_every_row_is_there_once_and_orphan_files_do_not_count(ran: Ran) -> None:
    outcome = verify(ran.spec)
    assert outcome.exactly_once, (outcome.problems, outcome.samples)
    assert outcome.expected == outcome.actual == FILES * ROWS
    assert outcome.notes["orphan_files"] == 1
    assert len(ran.data()) == outcome.notes["output_files"]


def test_a_row_that_is_there_twice_is_found(ran: Ran) -> None:
    """A data file holds the rows of another one again."""
    one, other = ran.data()[:2]
    whole = one.read_bytes()
    try:
        shutil.copy(other, one)
        outcome = verify(ran.spec)
        assert not outcome.exactly_once
        assert outcome.duplicated == outcome.lost == ROWS
    finally:
        one.write_bytes(whole)


def test_a_lost_file_is_found(ran: Ran) -> None:
    file = ran.data()[0]
    whole = file.read_bytes()
    try:
        file.unlink()
        outcome = verify(ran.spec)
        assert outcome.lost == ROWS
        assert any(f"the manifest names {file.name}, which is not there" in each for each in outcome.problems)
    finally:
        file.write_bytes(whole)


def test_a_gap_in_the_manifest_is_found(ran: Ran) -> None:
    entry = ran.output / SINK_LOG / "1"
    whole = entry.read_bytes()
    try:
        entry.unlink()
        outcome = verify(ran.spec)
        assert outcome.lost == ROWS
        assert "the manifest has no entry for the committed batch 1" in outcome.problems
    finally:
        entry.write_bytes(whole)
