"""Drills that go by a clock, with real Spark.

1. The clock of a driver jumps by an hour and is set right again.
2. With `--full`, a stream whose rows Spark makes: its fork ends after a last batch. The rate source goes by the wall's
   clock, so windows are seconds here instead of minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sources import rate_began
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace
from support.spark.drill_project import drill_project, run_drill
from support.spark.drivers import until
from support.spark.twins import assert_both_agree

pytestmark = pytest.mark.spark

FEW = 12_000
TTL_JOB = "forgets_after_ten_minutes"

BATCHES = 10
ROWS_A_SECOND = 37
"""No divisor of 1000: times are rounded."""

STREAM = """\
args: ["window=5s", "slide=2s", "watermark=1s"]
trigger: {processing_time: 1 second}
"""


def generated(root: Path, **changes: Any) -> AbstractContextManager[Workspace]:
    """The drill `kill_driver` of a small `windowed_values`."""
    options: dict[str, Any] = {
        "job": "windowed_values",
        "source": f'{{{{kind: rate, options: {{{{rowsPerSecond: "{ROWS_A_SECOND}"}}}}}}}}',
        "more": STREAM,
        "model": "windowed_values",
        "batches": BATCHES,
        "min_records": ROWS_A_SECOND * BATCHES // 2,
        "oracle": "auto",
    }
    return drill_project(root, inputs=root, fault="kill_driver", **(options | changes))


def assert_ended_with(batch: int, checkpoint: Location) -> None:
    """At the boundary of the batch, or of the one after it: the end may be seen late on a busy machine."""
    position = log_position(checkpoint)
    assert position.gap == 0
    assert position.committed in (batch, batch + 1)


def fork_of(root: Path, run: DrillRun) -> Location:
    return open_path(str(root / "var" / "drills" / run.run_id / "fork" / "checkpoint"))


@pytest.mark.full  # see the fork of a stream that ran
def test_a_stream_without_input_is_forked_killed_and_ends_with_its_last_batch(tmp_path: Path) -> None:
    with generated(tmp_path) as workspace:
        run = run_drill(workspace)
    assert_both_agree(run, of="windowed_values")
    assert run.facts["twin"]["outcome"]["records"] == run.facts["reconciliation"]["records"] > 0
    fork = run.facts["fork"]
    assert (fork["batch"], fork["what"], fork["unseen"], fork["batches_left"]) == (None, "batch", BATCHES, BATCHES)
    assert_ended_with(BATCHES - 1, fork_of(tmp_path, run))


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Future[DrillRun]]]:
    """A drill whose batches are a second apart: it runs beside the drill of the clock."""
    root = tmp_path_factory.mktemp("made_up")
    with generated(root, rewind=2) as workspace, ThreadPoolExecutor(1) as beside:
        yield root, beside.submit(drilled_after_some_batches, workspace)


@pytest.fixture(scope="module", autouse=True)
def beside(request: pytest.FixtureRequest) -> None:
    """The second tier's drill begins before the first tier's."""
    if request.config.getoption("--full"):
        request.getfixturevalue("made_up")


def drilled_after_some_batches(workspace: Workspace) -> DrillRun:
    spec = workspace.stream("flights")
    origin = open_path(spec.checkpoint)
    workspace.fleet.start(spec, launched_by="test")
    until("some batches", lambda: (log_position(origin).committed or 0) >= 5)
    workspace.fleet.stop(spec.name, requested_by="test", reason="enough")
    return run_drill(workspace)


def test_a_clock_that_jumps_ahead_lets_state_expire_early_and_loses_no_row(tmp_path: Path) -> None:
    """A TTL goes by the time of the batch: at the jump each carrier's count begins again. The driver goes on, and an
    unbroken twin, which is given the times of the batches, writes the same."""
    replay(tmp_path / "flights", rows_per_file=500, limit=FEW)
    few = {"batches": 8, "min_records": FEW, "oracle": "auto", "job": TTL_JOB}
    with drill_project(tmp_path, inputs=tmp_path / "flights", fault="clock_step", **few) as workspace:
        shutil.rmtree(tmp_path / "spark_jobs" / "oracles")
        run = run_drill(workspace)
    assert run.passed, run.reason
    fault, twin = run.facts["fault"], run.facts["twin"]
    assert fault["evidence"]["difference"] == pytest.approx(3600, abs=30)
    assert not run.facts["recovery"]["restarted"]
    assert twin["outcome"]["expected"] == twin["outcome"]["actual"] > 100
    import duckdb

    output = tmp_path / "var" / "drills" / run.run_id / "fork" / "output"
    rows = duckdb.sql(
        f"SELECT at_ms, sum(flights), sum(total) FROM read_parquet('{output}/*.parquet') GROUP BY at_ms ORDER BY at_ms"
    ).fetchall()
    assert sum(flights for _, flights, _ in rows) == FEW
    jumped = [(flights, total) for at, flights, total in rows if at > rows[0][0] + 1_800_000]
    assert jumped[0][0] == jumped[0][1], "nothing is remembered in the first batch after the jump"
    before = [(flights, total) for at, flights, total in rows if at <= rows[0][0] + 1_800_000]
    assert before[1][0] < before[1][1], "in any other batch it is"


@pytest.mark.full  # in the first tier unit/sources/test_generated_source has what a fork of such a stream begins with
def test_a_fork_of_a_stream_that_ran_makes_up_for_the_time_since(made_up: tuple[Path, Future[DrillRun]]) -> None:
    root, drill = made_up
    run = drill.result()
    assert_both_agree(run, of="windowed_values")
    after = run.facts["fork"]["batch"]
    origin, forked = open_path(str(root / "var" / "checkpoints" / "flights")), fork_of(root, run)
    assert after + 2 == log_position(origin).committed
    assert rate_began(forked) == rate_began(origin)
    assert_ended_with(after + BATCHES, forked)


@pytest.mark.full  # see the fork of a stream that ran
def test_a_driver_that_is_started_again_goes_on_to_the_same_last_batch_and_not_beyond(tmp_path: Path) -> None:
    with generated(tmp_path) as workspace:
        spec = replace(workspace.stream("flights"), last_batch=2)
        checkpoint = open_path(spec.checkpoint)

        def end_of_a_driver() -> ExitRecord:
            driver = workspace.fleet.start(spec, launched_by="test").record.driver_id
            ended = until("its end", lambda: workspace.fleet.observe(driver).exit)
            assert isinstance(ended, ExitRecord)
            return ended

        assert end_of_a_driver().kind is ExitKind.COMPLETED
        assert_ended_with(2, checkpoint)
        before = log_position(checkpoint)
        assert end_of_a_driver().kind is ExitKind.COMPLETED
        assert log_position(checkpoint) == before, "the last batch is committed, and there is none after it"
        spec = replace(spec, last_batch=5)
        assert end_of_a_driver().kind is ExitKind.COMPLETED
        assert_ended_with(5, checkpoint)


@pytest.mark.full  # in the first tier test_negative_controls has a job that loses rows after its restart
def test_values_that_are_lost_after_the_restart_are_caught(tmp_path: Path) -> None:
    """Negative control: nothing of it is in the input, which only the clock and the checkpoint describe."""
    with generated(tmp_path, job="loses_values") as workspace:
        run = run_drill(workspace)
    assert verdict_word(run) == "DEVIATED", run.reason
    for counts in (run.facts["reconciliation"], run.facts["twin"]["outcome"]):
        assert counts["wrong"] > 0
        assert (counts["lost"], counts["duplicated"], counts["unexpected"]) == (0, 0, 0)
