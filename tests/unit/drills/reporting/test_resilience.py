"""What the drills have shown: by stream and fault, with the errors of the predictions; and two runs side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from streamwarden.drills.faults import Fault
from streamwarden.drills.faults.checkpoint_damage import CheckpointTarget, FileDamage
from streamwarden.drills.faults.driver.kill_driver import KillMoment
from streamwarden.drills.faults.service_outage import OutageService, OutageSpec
from streamwarden.drills.production import ProductionSpec
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.reporting.comparison import compare
from streamwarden.drills.reporting.resilience import (
    NEVER,
    RECENT,
    Trial,
    cells,
    resilience,
    trials_of,
    variant_of,
)
from streamwarden.drills.spec import DrillSpec
from support.simulated.drill_live import HOURS
from support.simulated.drill_specs import fault_of
from support.streams.stored_journals import facts_with, stored

KILL = DrillSpec(name="kill", stream="orders", fault=fault_of("kill_driver"))
STOP = DrillSpec(name="stop", stream="orders", fault=fault_of("controlled_restart"))


def ran(number: int, *, deviated: bool = False, **recovery: Any) -> DrillRun:
    """A run of `kill`, with the numbers of its recovery."""
    run, _ = stored("kill_driver", run_id=f"kill-{number}", drill="kill", stream="orders", started_at=float(number))
    facts = {**run.facts, "recovery": {**run.facts["recovery"], **recovery}}
    return replace(run, deviated=deviated, facts=facts)


def tried(*runs: DrillRun) -> list[Trial]:
    """What the runs have shown, newest first as the runs are."""
    return list(chain.from_iterable(map(trials_of, runs)))


def killing(name: str, moment: KillMoment | None) -> DrillSpec:
    """A drill that kills the driver of `orders` at this moment."""
    return DrillSpec(name=name, stream="orders", fault=fault_of("kill_driver", moment=moment))


def killed(number: int, spec: DrillSpec, *, deviated: bool = False) -> Trial:
    """The trial of a run of such a drill."""
    return Trial(
        run_id=f"{spec.name}-{number}",
        drill=spec.name,
        stream="orders",
        fault="kill_driver",
        variant=variant_of(spec, spec.sequence[0]),
        at=float(number),
        verdict="DEVIATED" if deviated else "PASSED",
    )


def predicted(run: DrillRun, seconds: float) -> DrillRun:
    """The run with one prediction."""
    term = {"name": "all", "seconds": seconds, "source": "the test"}
    return replace(run, facts={**run.facts, "predicted": [{"formula": "F", "terms": [term], "missing": []}]})


def test_each_configured_fault_has_a_row_also_if_it_was_never_tried() -> None:
    kill, stop = resilience({"kill": KILL, "stop": STOP}, tried(ran(1)), overdue=["stop"])[::-1]
    assert (kill.fault, kill.verdict, kill.drills, kill.overdue) == ("kill_driver", "PASSED", ("kill",), ())
    assert (stop.fault, stop.verdict, stop.drills, stop.overdue) == ("controlled_restart", NEVER, ("stop",), ("stop",))


def test_the_newest_run_gives_the_verdict_and_the_newest_passed_one_when_it_survived() -> None:
    (row,) = resilience({"kill": KILL}, tried(ran(3, deviated=True), ran(2), ran(1)))
    assert row.verdict == "DEVIATED"
    assert row.survived_at == 2.0


def test_a_fault_whose_drill_is_gone_keeps_its_row() -> None:
    (row,) = resilience({}, tried(ran(1)))
    assert (row.stream, row.fault, row.drills) == ("orders", "kill_driver", ())


def test_a_run_that_goes_on_and_one_that_cannot_be_read_say_nothing() -> None:
    running = replace(ran(2), status=DrillStatus.RUNNING, deviated=None)
    (row,) = resilience({"kill": KILL}, tried(running, replace(ran(1), facts={})))
    assert row.verdict == NEVER


def test_of_a_drill_that_is_hidden_nothing_is_left() -> None:
    runs = tried(ran(2, deviated=True), replace(ran(1), drill="old"))
    (row, _) = resilience({"stop": STOP, "kill": KILL}, runs)[::-1]
    assert row.of({"stop"}) is None
    old = row.of({"old"})
    assert old is not None
    assert (old.drills, old.verdict, [trial.run_id for trial in old.trials]) == ((), "PASSED", ["kill-1"])


def test_the_error_of_a_formula_is_taken_over_all_runs() -> None:
    """Predicted 12, 9 and 20 seconds where 10 were measured: +20 %, -10 % and +100 %."""
    runs = [predicted(ran(number, restart_seconds=10.0), seconds) for number, seconds in enumerate((12.0, 9.0, 20.0))]
    (row,) = resilience({"kill": KILL}, tried(*runs))
    (error,) = row.errors
    assert (error.formula, error.runs) == ("F", 3)
    assert error.median == pytest.approx(0.2)
    assert error.worst == pytest.approx(1.0)


def test_a_run_that_never_came_back_has_no_recovery_and_no_error() -> None:
    (row,) = resilience({"kill": KILL}, tried(predicted(ran(1, restart_seconds=None, recovery_seconds=None), 5.0)))
    assert row.recoveries == ()
    assert row.errors == ()


FILES, STATE, ANY = (
    killing("kill_after_files", KillMoment.AFTER_FILES),
    killing("kill_after_state", KillMoment.AFTER_STATE),
    killing("kill_driver", None),
)
MOMENTS = {each.name: each for each in (FILES, STATE, ANY)}


def test_a_later_pass_at_one_moment_hides_no_deviation_at_another_and_no_moment_that_never_ran() -> None:
    (cell,) = cells(resilience(MOMENTS, [killed(2, ANY), killed(1, FILES, deviated=True)]))
    assert [(row.variant, row.verdict, row.drills) for row in cell.variants] == [
        ("", "PASSED", ("kill_driver",)),
        ("moment: after_files", "DEVIATED", ("kill_after_files",)),
        ("moment: after_state", NEVER, ("kill_after_state",)),
    ]
    assert cell.verdict == "DEVIATED"
    assert cell.worst is cell.variants[1]
    assert cell.untried == (cell.variants[2],)


def test_a_deviation_is_over_when_the_same_variant_passes() -> None:
    """Negative control of the test above: the newest run of each variant counts, and not its worst run."""
    trials = [killed(4, STATE), killed(3, FILES), killed(2, ANY), killed(1, FILES, deviated=True)]
    (cell,) = cells(resilience(MOMENTS, trials))
    assert (cell.verdict, cell.untried) == ("PASSED", ())


def test_untried_cell_is_never_and_names_the_overdue_drills() -> None:
    (cell,) = cells(resilience(MOMENTS, [], overdue=["kill_after_state", "kill_driver"]))
    assert (cell.verdict, cell.worst, len(cell.untried)) == (NEVER, None, 3)
    assert cell.overdue == ("kill_after_state", "kill_driver")


def test_a_variant_that_no_drill_has_any_more_is_shown_and_does_not_count() -> None:
    (cell,) = cells(resilience({"kill_driver": ANY}, [killed(2, ANY), killed(1, FILES, deviated=True)]))
    assert [row.verdict for row in cell.variants] == ["PASSED", "DEVIATED"]
    assert cell.verdict == "PASSED"
    (cell,) = cells(resilience({}, [killed(2, ANY), killed(1, FILES, deviated=True)]))
    assert cell.verdict == "DEVIATED", "without any drill the last runs are all that is known"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"target": CheckpointTarget.COMMIT}, {"target": CheckpointTarget.CHANGELOG}),
        ({"damage": FileDamage.TRUNCATED}, {"damage": FileDamage.LOST}),
    ],
)
def test_each_part_of_a_checkpoint_and_each_damage_is_another_experiment(one: Any, other: Any) -> None:
    def damaged(options: Any) -> DrillSpec:
        chosen = {"target": CheckpointTarget.COMMIT, "damage": FileDamage.LOST, **options}
        return DrillSpec(name="x", stream="orders", fault=fault_of("checkpoint_damage", **chosen))

    assert len(resilience({"one": damaged(one), "other": damaged(other)}, [])) == 2


def test_what_only_says_how_a_fault_is_tried_makes_no_other_experiment() -> None:
    """Attempts, deadlines and the commands of an outage; and a default that a file spells out."""

    def stopped(command: str, lasts: float) -> Fault:
        outage = OutageSpec(service=OutageService.SINK, down=(command,), up=("up",), lasts=lasts)
        return fault_of("service_outage", outage=outage, attempts=int(lasts))

    pairs = {
        "outage.service: sink": (stopped("stop", 5.0), stopped("halt", 7.0)),
        "by: 1h": (fault_of("clock_step"), fault_of("clock_step", by=3600.0)),
        "lasts: 10.0 s": (fault_of("sink_locked"), fault_of("sink_locked", lasts=10.0)),
    }
    for variant, faults in pairs.items():
        assert {variant_of(KILL, each) for each in faults} == {variant}
    assert variant_of(KILL, fault_of("clock_step", by=-7200.0)) == "by: -2h"
    assert Fault.variant.fget(fault_of("sink_locked", lasts=90.0)) == "lasts: 1m 30s"
    assert variant_of(KILL, fault_of("input_doubled", deduplicates=True)) == "deduplicates: true"


def test_the_live_stream_is_another_experiment_than_its_fork() -> None:
    live = replace(KILL, target=DrillTarget.PRODUCTION, production=ProductionSpec(allowed_hours=HOURS))
    assert [row.variant for row in resilience({"kill": KILL, "live": live}, [])] == ["", "on the live stream"]


def test_a_list_has_the_newest_runs_and_the_verdict_of_the_past_is_over_all() -> None:
    trials = [killed(number, ANY, deviated=number > 0) for number in range(RECENT + 1, -1, -1)]
    (row,) = resilience({"kill_driver": ANY}, trials)
    assert len(row.recent) == RECENT
    assert row.survived_at == 0.0


def test_two_runs_are_compared_by_measurements_and_differences() -> None:
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
