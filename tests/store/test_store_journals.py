"""Journals of drills, and the trials that are kept of them: written together, read back the same."""

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.tables import journal_entries
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.drills.reporting.listing import DrillVerdict, RunFilter
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.reporting.resilience import trials_of
from streamwarden.errors import DrillError
from support.streams.stored_journals import stored


class TestJournals:
    RUN = DrillRun(run_id="run-1", drill="kill_driver", stream="flights", started_at=10)

    def test_a_run_is_replaced_as_it_goes_on(self, store: Store) -> None:
        store.journals.save(self.RUN)
        assert store.journals.get("run-1") == self.RUN
        done = replace(
            self.RUN,
            status=DrillStatus.COMPLETED,
            deviated=False,
            ended_at=99,
            facts={"recovery": {"predicted": 4.5, "measured": 3.9}, "lost": 0},
        )
        store.journals.save(done)
        assert store.journals.get("run-1") == done
        assert store.journals.recent() == (done,)
        assert store.journals.get("run-2") is None

    def test_the_runs_that_have_not_ended_are_found_however_old_they_are(self, store: Store) -> None:
        store.journals.save(self.RUN)
        for number in range(60):
            ended = replace(self.RUN, run_id=f"later-{number}", started_at=self.RUN.started_at + number, ended_at=1e9)
            store.journals.save(ended)
        store.journals.save(replace(self.RUN, run_id="other", stream="other", started_at=self.RUN.started_at + 1))
        assert [run.run_id for run in store.journals.running()] == ["other", "run-1"]

    def test_entries_come_back_in_the_order_they_were_written(self, store: Store) -> None:
        """Also when a clock went backwards."""
        entries = [
            JournalEntry(step=step, at=at, kind="note", message=f"at {at}", data={"list": [1, "zwei", None]})
            for step, at in ((DrillStep.STEADY_STATE, 3.0), (DrillStep.FAULT, 1.0), (DrillStep.FAULT, 2.0))
        ]
        for entry in entries:
            store.journals.append("run-1", entry)
        store.journals.append("run-2", entries[0])
        assert store.journals.entries("run-1") == tuple(entries)

    def test_recent_runs_of_one_drill_or_one_stream(self, store: Store) -> None:
        other = replace(self.RUN, run_id="run-2", drill="controlled_restart", started_at=20)
        third = replace(self.RUN, run_id="run-3", stream="other", started_at=30)
        for run in (self.RUN, other, third):
            store.journals.save(run)
        assert store.journals.recent() == (third, other, self.RUN)
        assert store.journals.recent(drill="kill_driver") == (third, self.RUN)
        assert store.journals.recent(stream="flights", limit=1) == (other,)

    def test_a_list_is_filtered_and_paged_and_leaves_the_facts_out(self, store: Store) -> None:
        passed = replace(self.RUN, status=DrillStatus.COMPLETED, deviated=False, ended_at=20.0, facts={"much": "data"})
        deviated = replace(passed, run_id="run-2", deviated=True, started_at=20)
        undecided = replace(passed, run_id="run-3", deviated=None, started_at=30)
        other = replace(passed, run_id="run-4", drill="other", stream="other", started_at=40)
        for run in (passed, deviated, undecided, other):
            store.journals.save(run)

        def listed(**chosen: Any) -> tuple[list[str], int]:
            runs, found = store.journals.listed(RunFilter(**{"drills": ["kill_driver", "other"], **chosen}))
            assert all(not run.facts for run in runs)
            return [run.run_id for run in runs], found

        assert listed() == (["run-4", "run-3", "run-2", "run-1"], 4)
        assert listed(offset=1, limit=2) == (["run-3", "run-2"], 4)
        assert listed(drills=["kill_driver"], before=30.0) == (["run-2", "run-1"], 2)
        assert listed(drills=[]) == ([], 0)
        assert listed(stream="other") == (["run-4"], 1)
        assert listed(verdict=DrillVerdict.PASSED) == (["run-4", "run-1"], 2)
        assert listed(verdict=DrillVerdict.DEVIATED) == (["run-3", "run-2"], 2)
        assert listed(verdict=DrillVerdict.RUNNING) == ([], 0)

    @pytest.mark.parametrize("verdict", DrillVerdict)
    def test_a_list_of_a_verdict_has_the_runs_that_show_it(self, store: Store, verdict: DrillVerdict) -> None:
        """The word is made in one place and looked for in another."""
        for status in DrillStatus:
            for deviated in (None, True, False):
                run = replace(self.RUN, run_id=f"{status}-{deviated}", status=status, deviated=deviated)
                store.journals.save(run)
        runs, _ = store.journals.listed(RunFilter(drills=["kill_driver"], verdict=verdict))
        shown = {run.run_id for run in store.journals.recent() if verdict_word(run) == verdict}
        assert {run.run_id for run in runs} == shown != set()

    def test_the_drills_that_ran_and_the_newest_run_of_each(self, store: Store) -> None:
        newer = replace(self.RUN, run_id="run-2", started_at=20, facts={"much": "data"})
        other = replace(self.RUN, run_id="run-3", drill="other", stream="orders")
        for run in (self.RUN, newer, other):
            store.journals.save(run)
        assert store.journals.drilled() == (("kill_driver", "flights"), ("other", "orders"))
        assert store.journals.newest_of_drills() == {"kill_driver": replace(newer, facts={}), "other": other}

    def test_the_newest_run_of_a_stream_may_run_still_and_the_newest_that_ended_is_known(self, store: Store) -> None:
        ended = replace(self.RUN, status=DrillStatus.COMPLETED, ended_at=15, deviated=True)
        running = replace(self.RUN, run_id="run-2", started_at=20, status=DrillStatus.RUNNING)
        for run in (ended, running):
            store.journals.save(run)
        assert store.journals.newest() == {"flights": replace(running, facts={})}
        assert store.journals.newest_of_drills() == {"kill_driver": running}
        assert store.journals.newest_of_drills(ended=True) == {"kill_driver": ended}
        assert store.journals.newest(ended=True) == {"flights": replace(ended, facts={})}
        store.journals.save(replace(ended, run_id="run-3", started_at=25, status=DrillStatus.ABORTED))
        assert store.journals.newest(ended=True)["flights"].facts == ended.facts, "they say whether it was declined"

    def test_a_line_of_a_step_that_this_version_does_not_know_is_named(self, store: Store) -> None:
        line = {"run_id": "run-1", "step": "levitation", "at": 1.0, "kind": "note", "message": "up", "data": {}}
        store._database.write(lambda connection: connection.execute(journal_entries.insert().values(line)))
        with pytest.raises(DrillError, match="levitation"):
            store.journals.entries("run-1")


class TestTrials:
    """What runs have shown, in small rows that are written together with each run."""

    @staticmethod
    def ran(number: int, **changes: Any) -> DrillRun:
        run, _ = stored("kill_driver", **{"run_id": f"run-{number}", "started_at": float(number), **changes})
        return run

    def test_a_run_that_ended_is_read_back_as_its_trial(self, store: Store) -> None:
        store.journals.save(self.ran(1, drill="kill", stream="orders"))
        assert store.trials.newest() == trials_of(self.ran(1, drill="kill", stream="orders"))
        (trial,) = store.trials.newest("orders")
        assert (trial.fault, trial.verdict, len(trial.estimates)) == ("kill_driver", "PASSED", 2)
        assert store.trials.newest("other") == ()

    def test_a_run_that_goes_on_has_no_trial_and_one_that_is_saved_again_has_its_last_verdict(
        self, store: Store
    ) -> None:
        store.journals.save(self.ran(1, status=DrillStatus.RUNNING, deviated=None))
        assert store.trials.newest() == ()
        store.journals.save(self.ran(1))
        store.journals.save(self.ran(1, deviated=True))
        assert [trial.verdict for trial in store.trials.newest()] == ["DEVIATED"]

    def test_a_run_that_cannot_be_read_leaves_no_trial_of_its_earlier_state(self, store: Store) -> None:
        store.journals.save(self.ran(1))
        store.journals.save(self.ran(1, facts={}))
        assert store.trials.newest() == ()
        assert store.journals.get("run-1") is not None

    def test_a_drill_that_runs_often_does_not_hide_one_that_runs_seldom(self, store: Store) -> None:
        """The bound is for each drill on each stream, newest first."""
        store.journals.save(self.ran(0, drill="seldom"))
        for number in range(1, 8):
            store.journals.save(self.ran(number, drill="often"))
        store.journals.save(self.ran(9, drill="often", stream="other"))
        assert [(trial.drill, trial.at) for trial in store.trials.newest(runs=2)] == [
            ("often", 9.0),
            ("often", 7.0),
            ("often", 6.0),
            ("seldom", 0.0),
        ]
        assert [trial.at for trial in store.trials.newest("other", runs=2)] == [9.0]
