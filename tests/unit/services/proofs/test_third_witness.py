"""What the stream itself wrote in the batches that a rewound fork and its twin executed again.

The checkpoints and the outputs are written by hand in Spark's formats.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.services.twins.keys import WHOLE, RowKey
from streamwarden.services.twins.third_witness import ThirdWitness, same_plans, third_witness
from streamwarden.sinks.base import Sink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import OutputMode, StreamSpec

pytestmark = pytest.mark.usefixtures("one_database")

ROWS = {0: [1, 2], 1: [3, 4], 2: [5, 6], 3: [7, 8]}
"""Batch -> what it writes."""


def stream(
    root: Path, rows: Mapping[int, Sequence[int]], *, marks: Mapping[int, int] | None = None, **sink: Any
) -> StreamSpec:
    """A stream, or its fork, whose batch N has read the file N and written these rows."""
    for folder in ("checkpoint/offsets", "checkpoint/commits", "checkpoint/sources/0", "output/_spark_metadata"):
        (root / folder).mkdir(parents=True)
    job = root.parent / "job.py"
    job.write_text("def build(spark, spec): ...\n")
    os.utime(job, (1, 1))
    for batch, values in rows.items():
        head = {"batchWatermarkMs": (marks or {}).get(batch, 0), "batchTimestampMs": 1, "conf": {}}
        (root / f"checkpoint/offsets/{batch}").write_text(f'v1\n{json.dumps(head)}\n{{"logOffset":{batch}}}')
        (root / f"checkpoint/commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
        entry = {"path": f"file://{root}/input/{batch}.json", "timestamp": 1, "batchId": batch}
        (root / f"checkpoint/sources/0/{batch}").write_text(f"v1\n{json.dumps(entry)}")
        name = f"part-{batch}" if batch < 2 else f"part-{batch}-{root.name}"  # the fork has taken over two batches
        pq.write_table(pa.table({"id": values}), root / f"output/{name}.parquet")
        named = {"path": (root / f"output/{name}.parquet").as_uri(), "action": "add"}
        (root / f"output/_spark_metadata/{batch}").write_text(f"v1\n{json.dumps(named)}")
    return StreamSpec(
        name="numbers",
        job=str(job),
        checkpoint=str(root / "checkpoint"),
        source=FilesSource(path=str(root / "input")),
        sink=ParquetSink(path=str(root / "output"), **sink),
    )


def compared(own: StreamSpec, fork: StreamSpec, *, plan: str = "Project") -> ThirdWitness:
    assert isinstance(fork.sink, Sink)
    output = fork.sink.read(fork, {}, committed=3, first=0, deduplicated=True)
    key = RowKey((), WHOLE)
    return third_witness(own, fork, output, [2, 3], key=key, plan=plan, tolerances={}, left_out=())


def test_a_row_that_every_restart_loses_is_found_by_the_streams_own_rows(tmp_path: Path) -> None:
    """The twin restarts as the fork does, so that both lack the row 5."""
    found = compared(stream(tmp_path / "own", ROWS), stream(tmp_path / "fork", {**ROWS, 2: [6]}))
    said = "the stream itself wrote other rows in the batches 2 to 3 of 2 batches: 1 lost of its 4 rows"
    assert found.sentence == said
    assert found.problems == (f"{said}, for example (id=5); due from batch 2",)


def test_the_same_rows_agree_whatever_the_stream_wrote_before_and_after(tmp_path: Path) -> None:
    """The negative control. The batch 4 came after the fork, and the rows of the batch 0 are not the fork's own."""
    own, fork = stream(tmp_path / "own", {**ROWS, 0: [0], 4: [9]}), stream(tmp_path / "fork", ROWS)
    assert compared(own, fork) == ThirdWitness(
        "the stream itself wrote the same 4 rows in the batches 2 to 3 of 2 batches"
    )


def test_batches_behind_another_plan_are_not_compared(tmp_path: Path) -> None:
    own = stream(tmp_path / "own", {**ROWS, 3: [70]}, marks={3: 1})
    found = compared(own, stream(tmp_path / "fork", ROWS))
    assert found == ThirdWitness("the stream itself wrote the same 2 rows in the batches 2 to 2 of 2 batches")


@pytest.mark.parametrize("reason", ["clock", "job", "plan", "manifest", "mode"])
def test_what_cannot_be_compared_is_said_with_its_reason(tmp_path: Path, reason: str) -> None:
    marks = {2: 1} if reason == "plan" else {}
    mode = OutputMode.UPDATE if reason == "mode" else OutputMode.APPEND
    own = stream(tmp_path / "own", {**ROWS, 2: [50]}, marks=marks, mode=mode)
    fork = stream(tmp_path / "fork", ROWS)
    if reason == "job":
        os.utime(own.job)
        os.utime(f"{own.checkpoint}/commits/2", (2, 2))
    if reason == "manifest":
        (tmp_path / "own/output/_spark_metadata/1").unlink()
    found = compared(own, fork, plan="Project [current_timestamp() AS at]" if reason == "clock" else "Project")
    assert found.problems == ()
    assert found.sentence.startswith("not compared with the stream's own rows: ")
    said = {
        "clock": "the query reads the clock",
        "job": "the job has changed since",
        "plan": "it has not committed the batch 2 with the same input and watermark",
        "manifest": "the manifest as of batch 3 is not kept",
        "mode": "in the output mode update a later batch replaces rows",
    }
    assert said[reason] in found.sentence


def test_the_plans_are_the_same_up_to_the_first_difference() -> None:
    mine = {batch: (0, (batch,)) for batch in range(5)}
    assert same_plans(mine, mine, [1, 2, 3]) == [1, 2, 3]
    assert same_plans(mine, {**mine, 2: (9, (2,))}, [1, 2, 3]) == [1]
    assert same_plans(mine, {}, [1, 2, 3]) == []
