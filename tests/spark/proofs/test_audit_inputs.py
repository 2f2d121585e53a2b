"""Audits of input with odd names, of sums near zero, and of a stream that is joined with files."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.auditing.auditing import requested
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec
from streamwarden.verification.comparing.balance import Outcome
from support.checkpoints.forged_output import Rows, copied, rewrite
from support.spark.audits import audited_here
from support.spark.sessions import run_in

pytestmark = pytest.mark.spark

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
JOB = """
from pyspark.sql import functions as F
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "k STRING, at TIMESTAMP, x DOUBLE")
    names = spark.read.schema("k STRING, name STRING").json(f"{spec.data}/names")
    return (
        rows.withWatermark("at", "30 seconds").join(names, "k")
        .groupBy(F.window("at", "20 minutes"), "name")
        .agg(F.count("*").alias("n"), F.sum("x").alias("balance"), F.sum("x").cast("int").alias("whole"))
        .selectExpr("window.start AS window_start", "name", "n", "balance", "whole")
    )
"""
DISTINCT = """
from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "k STRING, note STRING, tags MAP<STRING, STRING>, price DECIMAL(9,2), ok BOOLEAN")
    return rows.dropDuplicates(["k"])
"""
ODD = ["day 0.json", "100%.json", "a#b?c.json", "\u00fc & [1].json", "x;y=1,{z}.json", "late.json"]


def stream(data: Path, names: list[str], *, most: int | None) -> StreamSpec:
    """A stream whose places have a space in their names. Each file has a minute of rows whose values cancel out."""
    (data / "names").mkdir(parents=True)
    (data / "names" / "names.json").write_text(
        "".join(json.dumps({"k": f"k{i}", "name": f"n{i}"}) + "\n" for i in (0, 1))
    )
    (data / "input").mkdir()
    (data / "job.py").write_text(JOB)
    for number, name in enumerate(names):
        at = [BEGAN + timedelta(minutes=10 * number, seconds=second) for second in range(30)]
        rows = [
            {"k": f"k{second % 2}", "at": moment.isoformat(), "x": (0.1, 0.2, -0.3)[(second // 2 + number) % 3]}
            for second, moment in enumerate(at)
        ]
        file = data / "input" / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(file, (1_700_000_000 + number,) * 2)
    return StreamSpec(
        name="odd",
        job=str(data / "job.py"),
        data=str(data),
        source=FilesSource(path=str(data / "input"), max_files_per_trigger=most),
        sink=ParquetSink(path=str(data / "output")),
        checkpoint=str(data / "checkpoint"),
        trigger=TriggerSpec(available_now=True),
        state=StateSpec(shuffle_partitions=1),
    )


def test_odd_names_rounded_sums_and_files_that_are_joined(spark: Any, tmp_path: Path) -> None:
    spec = stream(tmp_path / "my data", ODD, most=1)
    run_in(spark, spec)
    whole = audited_here(spec, tmp_path / "whole", requested(spec))
    assert whole.outcome is Outcome.BALANCED, whole.to_dict()
    assert whole.amounts == ("n", "balance")
    assert whole.totals["output"]["n"]
    assert "; not compared: whole (neither a count nor a sum, or a rounded one)" in whole.sentence
    newest = audited_here(spec, tmp_path / "newest", requested(spec, 3))
    assert newest.outcome is Outcome.BALANCED, newest.to_dict()
    assert newest.totals["opening"]["n"]

    (tmp_path / "my data" / "names" / "names.json").write_text('{"k": "k0", "name": "renamed"}')
    changed = audited_here(spec, tmp_path / "changed", requested(spec))
    assert changed.outcome is Outcome.UNDECIDED
    assert "names.json was changed at" in changed.sentence


def test_a_name_that_spark_takes_for_a_pattern_explains_rows_that_are_there_twice(spark: Any, tmp_path: Path) -> None:
    spec = stream(tmp_path / "data", ["a.json", "b[1].json"], most=None)
    run_in(spark, spec)
    found = audited_here(spec, tmp_path / "books", requested(spec))
    assert found.outcome is Outcome.UNBALANCED, found.to_dict()
    assert (
        "batch 0 read 1 of its 2 files more than once: Spark takes the name 'b[1].json' for a pattern" in found.sentence
    )


def test_of_rows_that_differ_in_one_batch_the_output_has_one_of_them(spark: Any, tmp_path: Path) -> None:
    """Spark does not define which. A key with a third text is a finding."""
    spec = stream(tmp_path / "data", [], most=None)
    Path(spec.job).write_text(DISTINCT)
    rows = [
        {"k": f"k{number // 2}", "note": f"{number}", "tags": {"a": f"{number}", "b": "x"}, "price": 1.5, "ok": True}
        for number in range(6)
    ]
    (Path(str(spec.source.path)) / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_in(spark, spec)
    right = audited_here(spec, tmp_path / "right", requested(spec))
    assert right.outcome is Outcome.BALANCED, right.to_dict()
    assert (right.totals["output"]["rows"], right.left_out, right.unsure) == (3, {}, 0)

    def edit(rows: Rows) -> Rows:
        rows[0]["note"] = "edited"
        return rows

    copy = copied(spec, tmp_path / "copy")
    rewrite(copy, edit)
    wrong = audited_here(copy, tmp_path / "wrong", requested(copy))
    assert (wrong.outcome, wrong.unbalanced) == (Outcome.UNBALANCED, 2)
    assert "edited" in [entry.key["note"] for entry in wrong.worst]
