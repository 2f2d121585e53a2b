"""What the drills have shown: by stream and fault, with the errors of the predictions; and two runs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.drills.comparison import compare
from streamwarden.drills.journal import DrillRun, DrillStatus
from streamwarden.drills.parts import FaultKind, FaultSpec
from streamwarden.drills.resilience import NEVER, resilience
from streamwarden.drills.spec import DrillSpec
from support.stored_journals import facts_with, stored

KILL = DrillSpec(name="kill", stream="orders", fault=FaultSpec(kind=FaultKind.KILL_DRIVER))
STOP = DrillSpec(name="stop", stream="orders", fault=FaultSpec(kind=FaultKind.CONTROLLED_RESTART))


def ran(number: int, *, deviated: bool = False, **recovery: Any) -> DrillRun:
    """A run of `kill`, with the numbers of its recovery."""
    run, _ = stored("kill_driver", run_id=f"kill-{number}", drill="kill", stream="orders", started_at=float(number))
    facts = {**run.facts, "recovery": {**run.facts["recovery"], **recovery}}
    return replace(run, deviated=deviated, facts=facts)


def predicted(run: DrillRun, seconds: float) -> DrillRun:
    """The run with one prediction."""
    term = {"name": "all", "seconds": seconds, "source": "the test"}
    return replace(run, facts={**run.facts, "predicted": [{"formula": "F", "terms": [term], "missing": []}]})


def test_each_configured_fault_has_a_row_also_if_it_was_never_tried() -> None:
    kill, stop = resilience({"kill": KILL, "stop": STOP}, [ran(1)], overdue=["stop"])[::-1]
    assert (kill.fault, kill.verdict, kill.drills, kill.overdue) == ("kill_driver", "PASSED", ("kill",), ())
    assert (stop.fault, stop.verdict, stop.drills, stop.overdue) == ("controlled_restart", NEVER, ("stop",), ("stop",))


def test_the_newest_run_gives_the_verdict_and_the_newest_passed_one_when_it_survived() -> None:
    (row,) = resilience({"kill": KILL}, [ran(3, deviated=True), ran(2), ran(1)])
    assert row.verdict == "DEVIATED"
    assert row.survived_at == 2.0


def test_a_fault_whose_drill_is_gone_keeps_its_row() -> None:
    (row,) = resilience({}, [ran(1)])
    assert (row.stream, row.fault, row.drills) == ("orders", "kill_driver", ())


def test_a_run_that_goes_on_and_one_that_cannot_be_read_say_nothing() -> None:
    running = replace(ran(2), status=DrillStatus.RUNNING, deviated=None)
    (row,) = resilience({"kill": KILL}, [running, replace(ran(1), facts={})])
    assert row.verdict == NEVER


def test_of_a_drill_that_is_hidden_nothing_is_left() -> None:
    (row, _) = resilience({"stop": STOP, "kill": KILL}, [ran(2, deviated=True), replace(ran(1), drill="old")])[::-1]
    assert row.of({"stop"}) is None
    old = row.of({"old"})
    assert old is not None
    assert (old.drills, old.verdict, [trial.run_id for trial in old.trials]) == ((), "PASSED", ["kill-1"])


def test_the_error_of_a_formula_is_taken_over_all_runs() -> None:
    """Predicted 12, 9 and 20 seconds where 10 were measured: +20 %, -10 % and +100 %."""
    runs = [predicted(ran(number, restart_seconds=10.0), seconds) for number, seconds in enumerate((12.0, 9.0, 20.0))]
    (row,) = resilience({"kill": KILL}, runs)
    (error,) = row.errors
    assert (error.formula, error.runs) == ("F", 3)
    assert error.median == pytest.approx(0.2)
    assert error.worst == pytest.approx(1.0)


def test_a_run_that_never_came_back_has_no_recovery_and_no_error() -> None:
    (row,) = resilience({"kill": KILL}, [predicted(ran(1, restart_seconds=None, recovery_seconds=None), 5.0)])
    assert row.recoveries == ()
    assert row.errors == ()


def test_two_runs_are_compared_by_what_they_measured_and_by_what_differed() -> None:
    first = ran(1, recovery_seconds=8.0)
    second = replace(ran(2, recovery_seconds=10.0), deviated=True)
    drill = {**second.facts["drill"], "fork": {**second.facts["drill"]["fork"], "batches": 7}}
    counts = facts_with("kill_driver", lost=3)["reconciliation"]
    facts = {**second.facts, "drill": drill, "versions": {"pyspark": "9.9"}, "reconciliation": counts}
    found = compare(first, replace(second, facts=facts))
    measured = {each.name: each for each in found.measured}
    assert (measured["verdict"].first, measured["verdict"].second) == ("PASSED", "DEVIATED")
    assert measured["recovery, seconds from the fault"].change == pytest.approx(0.25)
    assert (measured["lost"].first, measured["lost"].second, measured["lost"].change) == (0, 3, None)
    assert [each.name for each in found.settings] == ["fork.batches"]
    assert "pyspark" in [each.name for each in found.versions]


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    found = compare(ran(1), ran(1))
    assert all(each.first == each.second and not each.change for each in found.measured)
    assert found.settings == found.versions == ()
