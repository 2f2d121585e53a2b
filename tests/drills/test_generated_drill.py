"""Drills of a stream whose rows Spark makes, with real Spark: its fork ends after a last batch.

The rate source goes by the wall's clock, so windows are seconds here instead of minutes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.logs import log_position
from streamwarden.checkpoint.sources import rate_began
from streamwarden.drills.journal import DrillRun
from streamwarden.drills.parts import FaultKind
from streamwarden.drills.report import verdict_word
from streamwarden.services.workspace import Workspace
from support.drill_project import drill_project, run_drill
from support.drivers import until
from support.twins import assert_both_agree

pytestmark = pytest.mark.spark

BATCHES = 14
ROWS_A_SECOND = 37
"""No divisor of 1000: times are rounded."""

STREAM = """\
args: ["window=5s", "slide=2s", "watermark=1s"]
trigger: {processing_time: 1 second}
"""


def generated(root: Path, **changes: Any) -> AbstractContextManager[Workspace]:
    """The drill `kill_driver` of a small `windowed_values`."""
    options = {
        "job": "windowed_values",
        "source": f'{{{{kind: rate, options: {{{{rowsPerSecond: "{ROWS_A_SECOND}"}}}}}}}}',
        "more": STREAM,
        "model": "windowed_values",
        "batches": BATCHES,
        "min_records": ROWS_A_SECOND * BATCHES // 2,
        "oracle": "auto",
    }
    return drill_project(root, inputs=root, fault=FaultKind.KILL_DRIVER, **(options | changes))


def fork_of(root: Path, run: DrillRun) -> Any:
    return open_path(str(root / "var" / "drills" / run.run_id / "fork" / "checkpoint"))


def test_a_stream_without_input_is_forked_killed_and_ends_with_its_last_batch(tmp_path: Path) -> None:
    with generated(tmp_path) as workspace:
        run = run_drill(workspace)
    assert_both_agree(run, of="windowed_values")
    fork = run.facts["fork"]
    assert (fork["batch"], fork["what"], fork["unseen"], fork["batches_left"]) == (None, "batch", BATCHES, BATCHES)
    position = log_position(fork_of(tmp_path, run))
    assert (position.planned, position.committed) == (BATCHES - 1, BATCHES - 1)


def test_a_fork_of_a_stream_that_ran_makes_up_for_the_time_since(tmp_path: Path) -> None:
    with generated(tmp_path, rewind=2) as workspace:
        spec = workspace.stream("flights")
        origin = open_path(spec.checkpoint)
        workspace.fleet.start(spec, launched_by="test")
        until("some batches", lambda: (log_position(origin).committed or 0) >= 5)
        workspace.fleet.stop(spec.name, requested_by="test", reason="enough")
        newest = log_position(origin).committed
        run = run_drill(workspace)
    assert_both_agree(run, of="windowed_values")
    after = run.facts["fork"]["batch"]
    assert after == newest - 2
    forked = fork_of(tmp_path, run)
    assert rate_began(forked) == rate_began(origin)
    assert log_position(forked).committed == after + BATCHES


def test_values_that_are_lost_after_the_restart_are_caught(tmp_path: Path) -> None:
    """Negative control: nothing of it is in the input, which only the clock and the checkpoint describe."""
    with generated(tmp_path, job="loses_values") as workspace:
        run = run_drill(workspace)
    assert verdict_word(run) == "DEVIATED", run.reason
    for counts in (run.facts["reconciliation"], run.facts["twin"]["outcome"]):
        assert counts["wrong"] > 0
        assert (counts["lost"], counts["duplicated"], counts["unexpected"]) == (0, 0, 0)
