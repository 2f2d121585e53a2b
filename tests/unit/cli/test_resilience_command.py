"""`resilience` and `drill compare`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.cli.exits import Exit
from streamwarden.drills.journal import DrillRun
from support.command_line import CommandLine
from support.stored_journals import stored

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


def test_an_unknown_stream_is_an_error_of_the_command_line(drilled: CommandLine) -> None:
    assert drilled("resilience", "b").code == Exit.USAGE


def test_two_runs_side_by_side(drilled: CommandLine) -> None:
    facts = {**run().facts, "versions": {**run().facts["versions"], "pyspark": "9.9"}}
    with drilled.store() as store:
        store.journals.save(run(run_id="kill-2", started_at=run().started_at + 10, facts=facts))
    answer = drilled("drill", "compare", "kill-1", "kill")
    assert answer.code == Exit.OK
    assert "kill-2" in answer.out
    assert "9.9" in answer.out
    assert "Both runs had the same settings." in answer.out
