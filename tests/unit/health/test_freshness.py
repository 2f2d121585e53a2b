"""Old numbers are never passed off as current: what checks say while work waits and nothing is committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.check import Check
from streamwarden.health.checks.batches import batch_longer_than_trigger, checkpoint_duration
from streamwarden.health.checks.input import backlog, late_rows, watermark_stalled
from streamwarden.health.checks.state import state_cleanup_time, state_size, state_update_latency
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import WaitingInput, Window
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.progress import Progress
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import SourceSpec, TriggerSpec
from support.streams.health_windows import NOW, driver, ended, judge, log, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
OF_BATCHES = (
    batch_longer_than_trigger.CHECK,
    checkpoint_duration.CHECK,
    state_cleanup_time.CHECK,
    state_update_latency.CHECK,
    late_rows.CHECK,
    watermark_stalled.CHECK,
)
TOPIC = KafkaSource(connection="events", topic="events")
EACH = pytest.mark.parametrize("check", OF_BATCHES, ids=lambda check: check.name)


def good(quiet: float, **fields: object) -> list[Progress]:
    """20 good batches of 5 s, ten seconds apart, the last one committed `quiet` seconds ago."""
    first = NOW - quiet - 5 - 190
    return [
        report(
            n,
            first + 10 * n,
            top={"batchDuration": 5_000},
            operator={"numRowsDroppedByWatermark": 0},
            watermark=first + 10 * n - 60,
            **fields,  # type: ignore[arg-type]
        )
        for n in range(20)
    ]


def hung(quiet: float, *, reports: list[Progress] | None = None, **changes: object) -> Window:
    """Batch 20 was planned right after the last commit, `quiet` seconds ago, and has been running since."""
    settings = {
        "log": log(20, 19, planned_at=NOW - quiet, committed_at=NOW - quiet),
        "drivers": (driver(1, NOW - 50_000),),
        "driver_alive": True,
        **changes,
    }
    return window(reports or good(quiet), **settings)


def waiting(count: int, since: float | None = None) -> WaitingInput:
    """20 batches have read 83,300 records: 833 a second of their 100 seconds."""
    return WaitingInput(what="record", count=count, since=since, planned=83_300, planned_batches=20)


@EACH
@pytest.mark.parametrize(("quiet", "status"), [(5, OK), (130, OK), (131, UNKNOWN), (360, UNKNOWN), (86_400, UNKNOWN)])
def test_good_batches_are_history_while_one_hangs(check: Check, quiet: float, status: Status) -> None:
    """The trigger is 10 s and a batch takes 5: from 130 s without a commit on the reports say nothing of now."""
    verdict = judge(check, hung(quiet))
    assert verdict.status is status
    assert ("nothing was committed, so this is out of date" in verdict.reason) == (status is UNKNOWN)


@EACH
def test_good_batches_of_an_idle_stream_stay_good(check: Check) -> None:
    """Negative control: everything is read and committed, for a day."""
    idle = hung(86_400, log=log(19, 19, planned_at=NOW - 86_405, committed_at=NOW - 86_400), waiting=waiting(0))
    assert judge(check, idle).status is OK


@EACH
def test_good_batches_of_a_stream_that_is_stopped_stay_good(check: Check) -> None:
    """Negative control: its last batch was cut, and records come while nothing is meant to run."""
    gone = driver(1, NOW - 90_000, exit=ended(ExitKind.STOPPED, NOW - 86_000))
    still = hung(86_400, drivers=(gone,), driver_alive=False, waiting=waiting(9, NOW - 80_000))
    assert judge(check, still).status is OK


@EACH
def test_a_batch_that_a_start_runs_again_is_not_as_old_as_its_plan(check: Check) -> None:
    """Cut by a stop a day ago, started again a minute ago: what the batches before it took still counts."""
    stopped = driver(1, NOW - 90_000, exit=ended(ExitKind.STOPPED, NOW - 86_000))
    assert judge(check, hung(86_400, drivers=(stopped, driver(2, NOW - 60)))).status is OK
    assert judge(check, hung(86_400, drivers=(stopped, driver(2, NOW - 360)))).status is UNKNOWN


@EACH
def test_drivers_that_die_and_are_replaced_commit_nothing(check: Check) -> None:
    """Six lives of a minute each since the last commit: the newest launch dates nothing."""
    drivers = [
        driver(n, NOW - 360 + 60 * n, exit=ended(ExitKind.FAILED, NOW - 301 + 60 * n) if n < 5 else None)
        for n in range(6)
    ]
    assert judge(check, hung(360, drivers=tuple(drivers))).status is UNKNOWN


@EACH
def test_input_that_no_batch_plans_makes_them_old_too(check: Check) -> None:
    """No batch runs. Records that came a minute ago make nothing old, those that came six minutes ago do."""
    quiet = log(19, 19, planned_at=NOW - 7_205, committed_at=NOW - 7_200)
    assert judge(check, hung(7_200, log=quiet, waiting=waiting(9, NOW - 60))).status is OK
    assert judge(check, hung(7_200, log=quiet, waiting=waiting(9, NOW - 360))).status is UNKNOWN


@EACH
def test_a_driver_that_is_down_and_not_meant_to_be_makes_them_old(check: Check) -> None:
    gone = driver(1, NOW - 90_000, exit=ended(ExitKind.KILLED, NOW - 360))
    quiet = log(19, 19, planned_at=NOW - 375, committed_at=NOW - 370)
    assert judge(check, hung(370, log=quiet, drivers=(gone,), driver_alive=False)).status is UNKNOWN


def test_an_alarm_of_old_numbers_stays() -> None:
    """40 s of checkpoint in each batch: nothing shows that it is over."""
    reports = good(7_200, durations={"walCommit": 40_000, "addBatch": 50_000})
    assert judge(checkpoint_duration.CHECK, hung(7_200, reports=reports)).status is CRITICAL


def test_state_size_is_that_after_the_last_commit() -> None:
    """Negative control: no commit, no change."""
    assert judge(state_size.CHECK, hung(7_200)).status is OK


def test_a_long_batch_of_a_slow_stream_is_not_old() -> None:
    """A trigger of an hour: fifty minutes without a commit are its rhythm."""
    slow = spec(trigger=TriggerSpec(processing_time=3_600.0))
    assert judge(checkpoint_duration.CHECK, hung(3_000, spec=slow)).status is OK
    assert judge(checkpoint_duration.CHECK, hung(3_800, spec=slow)).status is UNKNOWN


class TestBacklog:
    def verdict(self, quiet: float, records: int, **changes: object) -> Verdict:
        mine = hung(quiet, spec=spec(source=TOPIC), waiting=waiting(records), **changes)
        return judge(backlog.CHECK, mine)

    def test_time_in_which_nothing_was_committed_does_not_make_the_stream_slow(self) -> None:
        """833 a second while it read: six minutes of nothing say nothing about the speed."""
        running = self.verdict(5, 10_000)
        assert running.status is OK
        assert "10,000 records wait, the stream reads 833 records/s" in running.reason
        verdict = self.verdict(360, 10_000)
        assert verdict.status is UNKNOWN
        assert verdict.value == pytest.approx(10_000 / 833)
        assert "nothing was committed for 6m, and before, the stream read 833 records/s" in verdict.reason
        assert "are read" not in verdict.reason

    def test_a_dead_stream_is_not_called_slow(self) -> None:
        """20 minutes of input wait after ten hours: that is no 10 h of work, and more cores would not help."""
        gone = driver(1, NOW - 90_000, exit=ended(ExitKind.KILLED, NOW - 36_000))
        verdict = self.verdict(36_000, 1_000_000, drivers=(gone,), driver_alive=False)
        assert (verdict.status, verdict.value) == (WARNING, pytest.approx(1_000_000 / 833, rel=1e-3))
        assert "no driver runs, and while one did, the stream read 833 records/s" in verdict.reason
        assert "cores" not in verdict.advice
        assert verdict.advice.startswith("The stream is not slow, it stands still")

    def test_a_slow_stream_is_called_slow(self) -> None:
        """The negative control: it reads, and input waits for 20 minutes."""
        verdict = self.verdict(5, 1_000_000)
        assert verdict.status is WARNING
        assert "more cores" in verdict.advice

    def test_nothing_that_waits_is_no_backlog_while_the_last_batch_runs(self) -> None:
        """What the running batch has planned does not wait; whether it ends is not known."""
        assert self.verdict(60, 0).status is OK
        assert self.verdict(360, 0).status is UNKNOWN

    def test_an_idle_topic_has_none(self) -> None:
        """Negative control."""
        idle = log(19, 19, planned_at=NOW - 7_205, committed_at=NOW - 7_200)
        assert self.verdict(7_200, 0, log=idle).status is OK

    @pytest.mark.parametrize(("age", "status"), [(0, OK), (130, OK), (131, UNKNOWN), (9_000, UNKNOWN)])
    def test_a_report_in_which_the_source_had_nothing_more_grows_old(self, age: float, status: Status) -> None:
        """A script's own source, which is not looked at: two minutes and a trigger of 10 s after the batch."""
        end = {"topic": {"0": 50}}
        reports = good(age, source={"latestOffset": end, "endOffset": end})
        script = spec(source=SourceSpec())
        quiet = log(19, 19, planned_at=NOW - age, committed_at=NOW - age)
        verdict = judge(backlog.CHECK, hung(age, reports=reports, spec=script, log=quiet))
        assert verdict.status is status
        assert ("the newest report is too old to show what waits" in verdict.reason) == (status is UNKNOWN)

    @pytest.mark.parametrize(("age", "status"), [(0, OK), (9_000, UNKNOWN)])
    def test_rates_grow_old(self, age: float, status: Status) -> None:
        rates = {"inputRowsPerSecond": 2_000.0, "processedRowsPerSecond": 5_000.0, "batchDuration": 5_000}
        reports = [report(n, NOW - age - 5 - 10 * (19 - n), top=rates) for n in range(20)]
        quiet = log(19, 19, planned_at=NOW - age, committed_at=NOW - age)
        assert judge(backlog.CHECK, hung(age, reports=reports, log=quiet)).status is status

    def test_rows_that_a_report_left_behind_are_no_more_work_later(self) -> None:
        """60,000 rows behind at 4,000 a second are 15 s of work, also two hours later: the report is too old then."""
        source = {"endOffset": {"topic": {"0": 0}}, "latestOffset": {"topic": {"0": 60_000}}}
        script = spec(source=SourceSpec())
        values = [
            judge(backlog.CHECK, hung(age, reports=good(age, source=source), spec=script)) for age in (1.0, 7_200.0)
        ]
        assert [each.status for each in values] == [OK, UNKNOWN]
        assert values[0].value == pytest.approx(15)

    def test_in_real_time_mode_a_commit_that_does_not_come_is_behind(self) -> None:
        """A batch lasts 30 s; twenty minutes after the last commit all but those are overdue."""
        live = spec(source=TOPIC, trigger=TriggerSpec(real_time=30.0))
        quiet = log(19, 19, planned_at=NOW - 1_200, committed_at=NOW - 1_200)
        mine = hung(1_200, spec=live, log=quiet, waiting=waiting(50_000, NOW - 1_200))
        verdict = judge(backlog.CHECK, mine)
        assert (verdict.status, verdict.value) == (WARNING, 1_170)
        assert "the commit after batch 19 is 19m 30s overdue" in verdict.reason
        soon = replace(mine, log=replace(quiet, committed_at=NOW - 20), waiting=waiting(500, NOW - 20))
        assert (judge(backlog.CHECK, soon).status, judge(backlog.CHECK, soon).value) == (OK, 0)


class TestRowsThatWereAllDropped:
    """250 of 250 rows, of which Spark counts 40 after its partial aggregation."""

    LOST = {"numRowsDroppedByWatermark": 40, "numRowsUpdated": 0}  # noqa: RUF012 (it is read only)

    def reports(self, *lost: int, rows: int = 250, custom: dict[str, int] | None = None) -> list[Progress]:
        return [
            report(
                n,
                NOW - 300 + 10 * n,
                top={"numInputRows": rows if n in lost else 10_000},
                operator=self.LOST if n in lost else {"numRowsDroppedByWatermark": 0},
                custom=custom if n in lost else None,
            )
            for n in range(20)
        ]

    def test_one_such_batch_is_never_well(self) -> None:
        verdict = judge(late_rows.CHECK, window(self.reports(7)))
        assert verdict.status is WARNING
        assert "batch 7 kept none of its 250 rows: all rows that reached its state were late" in verdict.reason
        assert "250 of 190,250 rows (0.131 %) were dropped as late in 1 of 20 batches" in verdict.reason
        assert "at least" not in verdict.reason, "all of them: nothing is left to estimate"
        assert verdict.evidence["batches_dropped_whole"] == [7]

    def test_a_stream_whose_every_batch_is_dropped_is_critical(self) -> None:
        verdict = judge(late_rows.CHECK, window(self.reports(*range(20))))
        assert (verdict.status, verdict.value) == (CRITICAL, 1.0)

    def test_few_rows_are_no_excuse(self) -> None:
        """Two batches of 250 rows are too few for a share, and enough for this."""
        assert judge(late_rows.CHECK, window(self.reports(0, 1)[:2])).status is WARNING

    def test_a_share_that_spark_counts_is_said_to_be_the_least(self) -> None:
        """Negative control: state was updated too, so the true number is not known, and one odd batch is no trend."""
        counted = {"numRowsDroppedByWatermark": 40, "numRowsUpdated": 1}
        reports = [*self.reports(), report(20, NOW - 90, top={"numInputRows": 250}, operator=counted)]
        verdict = judge(late_rows.CHECK, window(reports))
        assert verdict.status is OK
        assert "at least 40 of 190,250 rows" in verdict.reason

    def test_a_batch_of_duplicates_and_one_late_row_has_not_lost_all_its_rows(self) -> None:
        """Negative control: a deduplication that knows every row updates no state."""
        reports = self.reports(7, custom={"numDroppedDuplicateRows": 249})
        assert judge(late_rows.CHECK, window(reports)).status is OK

    def test_a_batch_without_late_rows_that_updated_nothing_is_well(self) -> None:
        """Negative control: what a filter took out is not late."""
        none = {"numRowsDroppedByWatermark": 0, "numRowsUpdated": 0}
        assert judge(late_rows.CHECK, window(report(n, operator=none) for n in range(20))).status is OK
