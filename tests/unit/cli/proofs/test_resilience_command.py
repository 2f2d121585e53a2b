"""`resilience` and `drill compare`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.comparison import compare
from support.command_line import CommandLine
from support.streams.stored_journals import stored

KILL = "name: kill\nstream: a\nfault: {kind: kill_driver}\n"
STOP = "name: stop\nstream: a\nfault: {kind: controlled_restart}\n"


def run(**changes: object) -> DrillRun:
    found, _ = stored("kill_driver")
    return replace(found, **{"run_id": "kill-1", "drill": "kill", "stream": "a", "deviated": False, **changes})


@pytest.fixture
def drilled(cli: CommandLine) -> CommandLine:
    """A stream with a drill that passed once."""
    cli.project.stream("a")
    folder = cli.project.root / "config/drills"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kill.yaml").write_text(KILL)
    with cli.store() as store:
        store.journals.save(run())
    return cli


def test_without_a_drill_the_table_says_how_to_get_one(cli: CommandLine) -> None:
    answer = cli("resilience")
    assert answer.code == Exit.OK
    assert "Add a file to config/drills." in answer.out


def test_a_stream_that_survived_its_only_fault_is_0(drilled: CommandLine) -> None:
    answer = drilled("resilience")
    assert answer.code == Exit.OK
    assert "kill driver" in answer.out
    assert "PASSED" in answer.out


def test_a_fault_that_was_never_tried_is_undecided(drilled: CommandLine) -> None:
    (drilled.project.root / "config/drills/stop.yaml").write_text(STOP)
    answer = drilled("resilience", "a")
    assert answer.code == Exit.UNDECIDED
    assert "never" in answer.out
    assert "1 of 1" in answer.out


def test_a_fault_that_the_stream_did_not_survive_is_bad(drilled: CommandLine) -> None:
    with drilled.store() as store:
        store.journals.save(run(run_id="kill-2", started_at=run().started_at + 10, deviated=True))
    answer = drilled("resilience", "--json")
    assert answer.code == Exit.BAD
    (row,) = answer.json
    assert (row["fault"], row["verdict"], len(row["trials"])) == ("kill_driver", "DEVIATED", 2)
    assert row["survived_at"] == run().started_at


def killed(name: str, moment: str, at: float, *, deviated: bool) -> DrillRun:
    """A run of a drill that kills the driver at this moment."""
    spec = {**run().facts["drill"], "name": name, "fault": {"kind": "kill_driver", "moment": moment}}
    facts = {**run().facts, "drill": spec}
    started = run().started_at + at
    return run(run_id=f"{name}-{at}", drill=name, started_at=started, deviated=deviated, facts=facts)


def test_a_later_pass_of_another_variant_does_not_hide_a_deviation(drilled: CommandLine) -> None:
    """kill_after_files deviated, then kill_driver passed; kill_after_state never ran."""
    for moment in ("after_files", "after_state"):
        text = f"name: kill_{moment}\nstream: a\nfault: {{kind: kill_driver, moment: {moment}}}\n"
        (drilled.project.root / f"config/drills/kill_{moment}.yaml").write_text(text)
    with drilled.store() as store:
        store.journals.save(killed("kill_after_files", "after_files", -10, deviated=True))
    table = drilled("resilience")
    assert table.code == Exit.BAD
    assert "DEVIATED" in table.out
    assert "1 of 3 never tried" in table.out
    rows = {row["variant"]: row["verdict"] for row in drilled("resilience", "a", "--json").json}
    assert rows == {"": "PASSED", "moment: after_files": "DEVIATED", "moment: after_state": "NEVER"}
    assert "moment: after_state" in drilled("resilience", "a").out


def test_after_the_variant_passes_only_cells_that_never_ran_are_left(drilled: CommandLine) -> None:
    """Negative control of the test above."""
    text = "name: kill_{0}\nstream: a\nfault: {{kind: kill_driver, moment: {0}}}\n"
    (drilled.project.root / "config/drills/kill_after_files.yaml").write_text(text.format("after_files"))
    with drilled.store() as store:
        store.journals.save(killed("kill_after_files", "after_files", -10, deviated=True))
        store.journals.save(killed("kill_after_files", "after_files", -5, deviated=False))
    assert drilled("resilience").code == Exit.OK
    (drilled.project.root / "config/drills/kill_after_state.yaml").write_text(text.format("after_state"))
    assert drilled("resilience").code == Exit.UNDECIDED


def test_a_drill_of_months_ago_still_counts_beside_one_that_runs_all_the_time(drilled: CommandLine) -> None:
    (drilled.project.root / "config/drills/stop.yaml").write_text(STOP)
    facts = run().facts
    stop = {**facts, "drill": {**facts["drill"], "fault": {"kind": "controlled_restart"}}}
    with drilled.store() as store:
        store.journals.save(run(run_id="stop-1", drill="stop", started_at=run().started_at - 9e6, facts=stop))
        for number in range(60):
            store.journals.save(run(run_id=f"kill-{number}", started_at=run().started_at + number))
    stopped, killed = drilled("resilience", "a", "--json").json
    assert (stopped["fault"], stopped["verdict"], stopped["survived_at"]) == (
        "controlled_restart",
        "PASSED",
        run().started_at - 9e6,
    )
    assert len(killed["trials"]) == 50
    assert {each["runs"] for each in killed["errors"]} == {60}, "the error of a formula is over all runs"


def test_an_unknown_stream_is_an_error_of_the_command_line(drilled: CommandLine) -> None:
    assert drilled("resilience", "b").code == Exit.USAGE


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ({"jobs/a.py": "1", "jobs/lib.py": "1"}, "job: the same code"),
        ({"jobs/a.py": "1", "jobs/lib.py": "2"}, "job: changed (jobs/lib.py)"),
        ({"jobs/a.py": "2", "jobs/new.py": "1"}, "job: changed (jobs/a.py, jobs/lib.py, jobs/new.py)"),
        ({}, "job: unknown"),
    ],
)
def test_a_changed_job_stands_first(code: dict[str, str], says: str) -> None:
    one = run(facts={**run().facts, "code": {"jobs/a.py": "1", "jobs/lib.py": "1"}})
    assert compare(one, run(facts={**run().facts, "code": code})).job.startswith(says)


def test_two_runs_side_by_side(drilled: CommandLine) -> None:
    facts = {**run().facts, "code": {"jobs/a.py": "2"}, "versions": {**run().facts["versions"], "pyspark": "9.9"}}
    with drilled.store() as store:
        store.journals.save(run(run_id="kill-2", started_at=run().started_at + 10, facts=facts))
    answer = drilled("drill", "compare", "kill-1", "kill")
    assert answer.code == Exit.OK
    assert answer.out.startswith("job: unknown"), "the older run recorded none"
    assert "kill-2" in answer.out
    assert "9.9" in answer.out
    assert "Both runs had the same settings." in answer.out
