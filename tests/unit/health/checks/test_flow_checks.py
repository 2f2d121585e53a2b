"""Rhythm, backlog, watermark and late rows: whether the stream keeps up with its input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.health.checks.batches import batch_longer_than_trigger
from streamwarden.health.checks.input import backlog, late_rows, watermark_stalled
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import WaitingInput
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.progress import Progress
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import TriggerSpec
from support.streams.health_windows import NOW, driver, ended, iso, judge, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


class TestBatchLongerThanTrigger:
    @pytest.mark.parametrize(
        ("milliseconds", "status"),
        [(1, OK), (9_999, OK), (10_000, WARNING), (50_000, WARNING), (50_001, CRITICAL)],
    )
    def test_boundaries(self, milliseconds: int, status: Status) -> None:
        """A trigger of 10 s: from 10 s WARNING, above five intervals CRITICAL."""
        mine = window(report(n, top={"batchDuration": milliseconds}) for n in range(5))
        assert judge(batch_longer_than_trigger.CHECK, mine).status is status

    def test_the_first_minute_of_a_driver_does_not_count(self) -> None:
        """After a restart, batches are long for a while: that alarms no person."""
        slow = [report(n, at=NOW - 20 + 5 * n, top={"batchDuration": 20_000}) for n in range(5)]
        for started_at, status in [(NOW - 81, WARNING), (NOW - 59, UNKNOWN)]:
            mine = window(slow, drivers=(driver(1, started_at - 10, started_at=started_at),))
            assert judge(batch_longer_than_trigger.CHECK, mine).status is status

    @pytest.mark.parametrize(
        "trigger",
        [TriggerSpec(processing_time=None), TriggerSpec(processing_time=0.0), TriggerSpec(available_now=True)],
    )
    def test_without_an_interval_no_batch_is_too_long(self, trigger: TriggerSpec) -> None:
        mine = window((report(n, top={"batchDuration": 10**6}) for n in range(5)), spec=spec(trigger=trigger))
        assert judge(batch_longer_than_trigger.CHECK, mine).status is OK


class TestBacklog:
    def _files(self, waiting: int) -> Verdict:
        """20 batches of 10 s read 4 files each: 0.4 files a second."""
        reports = [report(n, top={"batchDuration": 10_000}) for n in range(20)]
        mine = WaitingInput(count=waiting, size=1, since=NOW - 60, planned=80, planned_batches=20)
        return judge(backlog.CHECK, window(reports, waiting=mine))

    @pytest.mark.parametrize(
        ("files", "status"), [(0, OK), (239, OK), (240, WARNING), (1_440, WARNING), (1_441, CRITICAL)]
    )
    def test_waiting_files_at_the_speed_they_are_read(self, files: int, status: Status) -> None:
        """240 files are 10 minutes of work: WARNING; 1,440 are an hour; one more is CRITICAL."""
        verdict = self._files(files)
        assert (verdict.status, verdict.value) == (status, files / 0.4)

    def test_pauses_of_a_slow_trigger_count(self) -> None:
        """1 s of work each 10 s and 4 files a batch: 240 files take 60 batches, and the first of them is not late."""
        limited = spec(source=FilesSource(path="/in", max_files_per_trigger=4))
        reports = [report(n, top={"batchDuration": 1_000}) for n in range(20)]
        waiting = WaitingInput(count=240, size=1, since=NOW, planned=80, planned_batches=20)
        assert judge(backlog.CHECK, window(reports, spec=limited, waiting=waiting)).value == 590

    @pytest.mark.parametrize("trigger", [900.0, 7200.0, 86400.0])
    def test_what_came_since_a_slow_trigger_is_not_behind(self, trigger: float) -> None:
        """A file a minute, a batch takes 30 s and reads all that is there: just before the next one nothing is late."""
        slow = spec(source=FilesSource(path="/in"), trigger=TriggerSpec(processing_time=trigger))
        reports = [report(n, top={"batchDuration": 30_000}) for n in range(20)]
        files = int(trigger // 60)
        waiting = WaitingInput(count=files - 1, size=1, since=NOW, planned=20 * files, planned_batches=20)
        assert judge(backlog.CHECK, window(reports, spec=slow, waiting=waiting)).status is OK

    def _down(self, end: ExitKind, **changes: Any) -> Verdict:
        """1,500 files wait, more than an hour of work, and the driver ended a day ago."""
        reports = [report(n, top={"batchDuration": 10_000}) for n in range(20)]
        waiting = WaitingInput(count=1_500, size=1, since=NOW - 60, planned=80, planned_batches=20)
        gone = driver(1, NOW - 90_000, exit=ended(end, NOW - 80_000))
        return judge(backlog.CHECK, window(reports, waiting=waiting, drivers=(gone,), driver_alive=False, **changes))

    def test_what_waits_for_a_stream_that_is_stopped_is_no_backlog(self) -> None:
        """On request, though its driver had failed before, or between two daily runs."""
        daily = spec(trigger=TriggerSpec(available_now=True))
        for verdict in (
            self._down(ExitKind.STOPPED),
            self._down(ExitKind.FAILED, wanted_stopped=True),
            self._down(ExitKind.COMPLETED, spec=daily),
        ):
            assert (verdict.status, verdict.value) == (OK, 0.0)
            assert verdict.reason == "not running: 1,500 files wait until the stream is started"

    def test_what_waits_for_a_stream_that_is_meant_to_run_is_one(self) -> None:
        """Its driver died, or its query ended by itself, which its trigger does not ask for."""
        assert self._down(ExitKind.FAILED).status is CRITICAL
        assert self._down(ExitKind.COMPLETED).status is CRITICAL

    def test_files_waiting_before_the_first_read_have_no_lag_in_seconds(self) -> None:
        limited = spec(source=FilesSource(path="/in", max_files_per_trigger=4))
        waiting = WaitingInput(count=9, size=1, since=NOW)
        assert judge(backlog.CHECK, window(spec=limited, waiting=waiting)).status is UNKNOWN

    @pytest.mark.parametrize(
        ("behind", "status"), [(0, OK), (599_999, OK), (600_000, WARNING), (3_600_000, WARNING), (3_600_001, CRITICAL)]
    )
    def test_newest_offsets_of_a_kafka_like_source(self, behind: int, status: Status) -> None:
        """1,000 rows a second; the newest offsets are `behind` rows ahead over two partitions."""
        source = {
            "endOffset": {"topic": {"0": 10, "1": 20}},
            "latestOffset": {"topic": {"0": 10 + behind // 2, "1": 20 + behind - behind // 2}},
        }
        reports = [report(n, top={"batchDuration": 10_000, "numInputRows": 10_000}, source=source) for n in range(5)]
        verdict = judge(backlog.CHECK, window(reports))
        assert (verdict.status, verdict.value) == (status, behind / 1_000)

    def test_a_partition_that_is_new_counts_from_its_beginning(self) -> None:
        source = {"endOffset": '{"topic": {"0": 10}}', "latestOffset": '{"topic": {"0": 10, "1": 5000}}'}
        reports = [report(n, top={"batchDuration": 10_000, "numInputRows": 10_000}, source=source) for n in range(5)]
        assert judge(backlog.CHECK, window(reports)).value == 5

    def test_without_offsets_a_growing_queue_shows_in_the_rates(self) -> None:
        """Batches of 1, 2, 3 … minutes that start back to back: the last one's rows waited for ten minutes."""
        reports = []
        for n in range(1, 12):
            rows = 60_000 * n
            rates = {"inputRowsPerSecond": rows / (60.0 * (n - 1) or 60.0), "processedRowsPerSecond": rows / (60.0 * n)}
            reports.append(report(n, top={"numInputRows": rows, **rates}))
        verdict = judge(backlog.CHECK, window(reports))
        assert (verdict.status, verdict.value) == (WARNING, 600)

    def test_rates_of_a_stream_that_keeps_up(self) -> None:
        rates = {"inputRowsPerSecond": 2_000.0, "processedRowsPerSecond": 5_000.0}
        verdict = judge(backlog.CHECK, window(report(n, top=rates) for n in range(20)))
        assert (verdict.status, verdict.value) == (OK, 0)

    def test_rates_of_a_limited_source_say_nothing(self) -> None:
        """With a limit per batch the input rate is what was read, not what arrived."""
        for limited in (
            FilesSource(path="s3://bucket/in", max_files_per_trigger=4),
            KafkaSource(connection="c", topic="t", max_offsets_per_trigger=4),
        ):
            seen = window((report(n) for n in range(20)), spec=spec(source=limited))
            assert judge(backlog.CHECK, seen).status is UNKNOWN


class TestWatermark:
    def _run(self, marks: list[float], *, step: float = 10.0, rows: int = 100, **changes: object) -> Verdict:
        """One batch each `step` seconds, the newest at NOW, with these watermarks."""
        return judge(watermark_stalled.CHECK, window(self._reports(marks, step, rows), **changes))

    def _reports(self, marks: list[float], step: float = 10.0, rows: int = 100) -> list[Progress]:
        start = NOW - step * (len(marks) - 1)
        return [report(n, start + step * n, top={"numInputRows": rows}, watermark=mark) for n, mark in enumerate(marks)]

    @pytest.mark.parametrize(("batches", "status"), [(6, OK), (60, OK), (61, WARNING), (361, WARNING), (362, CRITICAL)])
    def test_stalled_while_rows_come_in(self, batches: int, status: Status) -> None:
        """Every 10 s a batch with rows, the watermark stands: 600 s are WARNING, 3,600 s too, more is CRITICAL."""
        verdict = self._run([1000.0] * batches)
        assert (verdict.status, verdict.value) == (status, 10.0 * (batches - 1))

    @pytest.mark.parametrize("ahead", [1_800, 4_200])
    def test_one_event_from_the_future_is_an_alarm_that_ends(self, ahead: int) -> None:
        """The watermark leaps and stands until time is there: told while it stands. Then event time runs as before."""
        begin, highest, previous, told = NOW - 21_600, 0.0, dict[str, Verdict](), list[Status]()
        reports = []
        for n in range(2_160):
            at = begin + 10 * n
            newest = at + (ahead if n == 360 else 0)
            event_time = {"max": iso(newest), "watermark": iso(max(highest - 600, 0))}
            reports.append(report(n, at, top={"numInputRows": 9, "batchDuration": 5_000, "eventTime": event_time}))
            highest = max(highest, newest)
            if n % 60 == 59:
                mine = window(reports[-100:], now=at, previous=previous)
                previous = {"watermark_stalled": judge(watermark_stalled.CHECK, mine)}
                told.append(previous["watermark_stalled"].status)
        assert WARNING in told
        assert (told[0], told[-1], previous["watermark_stalled"].value) == (OK, OK, 0)

    def test_an_idle_streams_watermark_has_no_reason_to_move(self) -> None:
        """Five batches with rows long ago, then two hours of batches without: nothing to judge, so what was stays."""
        fed = self._reports([1000.0 + n for n in range(0, 60, 10)])
        idle = [report(100 + n, NOW + 10 * n, top={"numInputRows": 0}, watermark=1050.0) for n in range(720)]
        assert judge(watermark_stalled.CHECK, window([*fed, *idle], now=NOW + 7_200)).status is OK

    def test_a_stall_longer_than_the_window_is_remembered(self) -> None:
        """The window holds 100 batches of 10 s, so 990 s; evaluated each five minutes the stall grows to hours."""
        start = NOW - 7_990
        every = [report(n, start + 10 * n, top={"numInputRows": 9}, watermark=1000.0) for n in range(800)]
        alone = judge(watermark_stalled.CHECK, window(every[-100:]))
        assert (alone.status, alone.value) == (WARNING, 990)
        previous: dict[str, Verdict] = {}
        for end in range(50, 801, 30):
            mine = window(every[max(0, end - 100) : end], now=start + 10 * end, previous=previous)
            previous = {"watermark_stalled": judge(watermark_stalled.CHECK, mine)}
        assert (previous["watermark_stalled"].status, previous["watermark_stalled"].value) == (CRITICAL, 7_990)

    def test_a_memory_of_another_query_is_not_believed(self) -> None:
        earlier = self._run([1000.0] * 100)
        old = replace(earlier, evidence={**earlier.evidence, "query_id": "x"})
        assert self._run([1000.0] * 6, previous={"watermark_stalled": old}).value == 50

    def test_a_memory_that_another_version_wrote_is_not_believed(self) -> None:
        earlier = self._run([1000.0] * 100)
        odd = replace(earlier, evidence={"query_id": earlier.evidence["query_id"], "since": 1})
        assert self._run([1000.0] * 6, previous={"watermark_stalled": odd}).value == 50

    def test_the_same_batches_judged_twice_count_once(self) -> None:
        """A person's `streamwarden check` between two ticks of the health DAG."""
        once = self._run([1000.0] * 30)
        again = self._run([1000.0] * 30, previous={"watermark_stalled": once})
        assert again.value == once.value == 290

    def test_the_time_a_stream_was_idle_does_not_count(self) -> None:
        """Five batches, four hours of nothing, five batches more under the same watermark: minutes, not hours."""
        early = self._reports([1000.0] * 5)
        late = [report(10 + n, NOW + 4 * 3_600 + 10 * n, watermark=1000.0) for n in range(5)]
        verdict = judge(watermark_stalled.CHECK, window([*early, *late], now=NOW + 5 * 3_600))
        assert (verdict.status, verdict.value) == (OK, 40 + 20 + 40)

    def test_what_was_lost_can_be_caught_up(self) -> None:
        """Half speed for 1,000 s, then double speed for 500 s: nothing is left to catch up."""
        slow = [1e6 + 5.0 * n for n in range(101)]
        fast = [slow[-1] + 20.0 * n for n in range(1, 51)]
        assert self._run(slow).value == 500
        assert self._run(slow + fast).value == 0

    @pytest.mark.parametrize(("speed", "status"), [(1.0, OK), (2.0, OK), (0.5, WARNING), (0.01, CRITICAL)])
    def test_never_catching_up(self, speed: float, status: Status) -> None:
        """Over 4,000 s of wall time event time gains 4,000 x speed: what it loses is what counts."""
        marks = [1e6 + 10.0 * n * speed for n in range(401)]
        verdict = self._run(marks)
        assert (verdict.status, verdict.value) == (status, pytest.approx(4_000 * max(0.0, 1 - speed)))

    def test_a_replay_of_2013_is_no_lag(self) -> None:
        """Event time far in the past that runs faster than the wall clock is well."""
        assert self._run([1.35e9 + 600.0 * n for n in range(300)]).status is OK

    def test_running_backwards_is_a_warning_and_a_new_baseline(self) -> None:
        """A restored checkpoint: the watermark falls by an hour, then rises again as it should."""
        marks = [1e6 + 10.0 * n for n in range(50)] + [1e6 - 3_600 + 10.0 * n for n in range(10)]
        verdict = self._run(marks)
        assert verdict.status is WARNING
        assert "went back" in verdict.reason
        assert verdict.evidence["behind_s"] == 0

    @pytest.mark.parametrize(
        ("left", "right", "idle"), [(9, 0, "KafkaV2[clicks]"), (0, 9, "KafkaV2[views]"), (5, 4, "")]
    )
    def test_the_idle_side_of_a_join_is_named(self, left: int, right: int, idle: str) -> None:
        """The watermark of a join is that of its slower side; a side without an event holds it."""
        sources = [
            {"description": f"KafkaV2[{name}]", "numInputRows": rows}
            for name, rows in (("views", left), ("clicks", right))
        ]
        stands = [
            report(n, NOW - 10 * (80 - n), top={"numInputRows": 9, "sources": sources}, watermark=1000.0)
            for n in range(80)
        ]
        verdict = judge(watermark_stalled.CHECK, window(stands))
        assert verdict.status is WARNING
        assert (f"{idle} has brought no row" in verdict.reason) is bool(idle)
        assert (verdict.advice == watermark_stalled.CHECK.advice) is not bool(idle)
        assert idle in verdict.advice

    def test_a_query_without_watermark_is_well(self) -> None:
        """The reports are there and name no event time: that is an answer."""
        from streamwarden.progress import parse_progress

        reports = [parse_progress({**report(n).raw, "eventTime": {}}) for n in range(5)]
        assert judge(watermark_stalled.CHECK, window(reports)).status is OK

    def test_four_batches_with_rows_are_too_few(self) -> None:
        assert self._run([1000.0] * 4).status is UNKNOWN


class TestLateRows:
    @pytest.mark.parametrize(("dropped", "status"), [(0, OK), (9, OK), (10, WARNING), (100, WARNING), (101, CRITICAL)])
    def test_boundaries(self, dropped: int, status: Status) -> None:
        """Five batches of 10,000 rows: 0.1 % is WARNING, 1 % too, more is CRITICAL."""
        mine = window(
            report(n, top={"numInputRows": 10_000}, operator={"numRowsDroppedByWatermark": dropped}) for n in range(5)
        )
        verdict = judge(late_rows.CHECK, mine)
        assert (verdict.status, verdict.value) == (status, dropped / 10_000)

    def test_one_odd_batch_is_no_trend(self) -> None:
        reports = [
            report(n, top={"numInputRows": 1_000}, operator={"numRowsDroppedByWatermark": 900 if n == 3 else 0})
            for n in range(20)
        ]
        assert judge(late_rows.CHECK, window(reports)).status is OK

    def test_few_rows_are_not_judged(self) -> None:
        mine = window(
            report(n, top={"numInputRows": 99}, operator={"numRowsDroppedByWatermark": 50}) for n in range(10)
        )
        assert judge(late_rows.CHECK, mine).status is UNKNOWN
