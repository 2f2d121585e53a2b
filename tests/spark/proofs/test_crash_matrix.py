"""A stream restarts from every state that a kill can leave, with the right output; a job that repeats rows is found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from streamwarden.drills.crash_states import CrashState, Ending, Origin, Outcome
from streamwarden.services.crash_matrix.matrix import RunRecord, load, record, restart
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.spark.drill_project import drill_project
from support.spark.drivers import QUICK

pytestmark = pytest.mark.spark

AROUND = (2,)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,400 flights in 12 files: one for each batch."""
    folder = tmp_path_factory.mktemp("flights")
    replay(folder, rows_per_file=200, limit=2_400)
    return folder


def recorded(tmp_path: Path, flights: Path, job: str) -> RunRecord:
    with drill_project(tmp_path, inputs=flights, fault="kill_driver", job=job) as workspace:
        return record(workspace.stream("flights"), into=tmp_path / "matrix", around=AROUND)


def is_prefix(state: CrashState) -> bool:
    return state.origin is Origin.KILL and state.torn is None


LOST = "output/_spark_metadata/2 is lost"
AHEAD = "output/_spark_metadata/2 is stored ahead of checkpoint/sources/0/2"


def one_of_each(run: RunRecord, whole: list[CrashState]) -> list[CrashState]:
    """A state for each part and change of a file that a kill ends with or a storage loses, and those of the test."""

    def kind(state: CrashState) -> object:
        if state.name in (LOST, AHEAD):
            return state.name
        last = run.operations[state.without[0] if state.without else max(state.applied - 1, 0)]
        return state.origin, last.part, last.change, bool(state.without)

    return list({kind(state): state for state in whole}.values())


def test_every_state_ends_with_the_right_output_or_with_an_error(
    tmp_path: Path, flights: Path, pytestconfig: pytest.Config
) -> None:
    """Of the half written files one of each part is enough, under each of its names. Of the other states the first tier
    takes one of each kind."""
    every = pytestconfig.getoption("--full")
    run = recorded(tmp_path, flights, "flight_departures")
    torn = {(each.origin, run.operations[each.torn].part): each for each in run.states if each.torn is not None}
    whole = [each for each in run.states if each.torn is None]
    states = [*(whole if every else one_of_each(run, whole)), *torn.values()]
    assert {"offsets", "state", "data", "manifest", "commits"} <= {part for _, part in torn}
    matrix = restart(load(run.folder), states)
    assert len(matrix.outcomes) == len(states) > (30 if every else 15)
    by_origin = {origin: [each for each in matrix.outcomes if each.state.origin is origin] for origin in Origin}
    assert {each.ending for each in by_origin[Origin.KILL]} == {Ending.RIGHT}, wrong(by_origin[Origin.KILL])
    assert {each.ending for each in by_origin[Origin.STORAGE]} == {Ending.RIGHT, Ending.REFUSED}
    details = {each.state.name: each.detail for each in matrix.outcomes}
    lost = details[LOST]
    assert lost == "the reader of the output: the manifest has no entry for the committed batch 2"
    reordered = details[AHEAD]
    assert "the manifest names part-" in reordered
    assert "which is not there" in reordered


@pytest.mark.full  # in the first tier drills/test_script_drill finds a batch that is written twice
def test_a_job_that_writes_a_batch_twice_when_it_runs_again_is_found(tmp_path: Path, flights: Path) -> None:
    """Before the plan of the batch is there, nothing runs again; after it, the batch does."""
    run = recorded(tmp_path, flights, "doubles_on_replay")
    plan = next(index for index, each in enumerate(run.operations) if each.path == "checkpoint/offsets/2")
    first = next(each for each in run.states if is_prefix(each))
    planned = next(each for each in run.states if is_prefix(each) and each.applied > plan)
    before, after = restart(run, [first, planned]).outcomes
    assert before.ending is Ending.RIGHT, before.detail
    assert after.ending is Ending.DIFFERENT
    assert "duplicated" in after.detail or "unexpected" in after.detail


def wrong(outcomes: list[Outcome]) -> str:
    return "\n".join(f"{each.state.name}: {each.detail}" for each in outcomes if each.ending is not Ending.RIGHT)


SCRIPT = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema("id BIGINT, at TIMESTAMP").json("input/clicks")
counts = clicks.withWatermark("at", "10 seconds").groupBy(F.window("at", "20 seconds")).agg(F.count("*").alias("n"))


def alert(batch, number):
    raise AssertionError("its rows are redirected")


counts.writeStream.foreachBatch(alert).option("checkpointLocation", "checkpoints/clicks").start()
spark.streams.awaitAnyTermination()
"""


@pytest.mark.full
def test_a_script_restarts_from_the_states_of_its_checkpoint_with_its_rows_redirected(tmp_path: Path) -> None:
    spark = {"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK}
    for path, text in (
        ("spark_jobs/clicks.py", SCRIPT),
        (
            "config/streams/clicks.yaml",
            "name: clicks\njob: spark_jobs/clicks.py\ncheckpoint: checkpoints/clicks\n"
            f"state: {{shuffle_partitions: 1}}\nspark: {json.dumps(spark)}\n",
        ),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    folder = tmp_path / "var/input/clicks"
    folder.mkdir(parents=True)
    for number in range(14):
        row = {"id": number, "at": f"2026-01-01T00:{number:02d}:00Z"}
        (folder / f"{number:03d}.json").write_text(f"{json.dumps(row)}\n")
        os.utime(folder / f"{number:03d}.json", (1_700_000_000 + number, 1_700_000_000 + number))
    with Workspace.open(project=tmp_path, data=tmp_path / "var") as workspace:
        run = record(workspace.stream("clicks"), into=tmp_path / "matrix", around=AROUND)
    assert {"offsets", "state", "data", "manifest", "commits"} <= {operation.part for operation in run.operations}
    states = one_of_each(run, [state for state in run.states if state.origin is Origin.KILL])
    matrix = restart(run, states)
    assert {outcome.ending for outcome in matrix.outcomes} == {Ending.RIGHT}, wrong(matrix.outcomes)
    assert not (tmp_path / "var/checkpoints").exists(), "the stream's own places are untouched"
