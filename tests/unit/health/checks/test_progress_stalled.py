"""Progress stalled: a batch that hangs, a source nobody reads, a driver that is gone; and what only looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.health.checks.batches import progress_stalled
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import WaitingInput, Window
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.progress import Progress
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import TriggerSpec
from support.streams.health_windows import NOW, driver, ended, idle_report, judge, log, measured, report, spec, window

CHECK = progress_stalled.CHECK
TOPIC = KafkaSource(connection="events", topic="events")
OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def history(seconds: float = 20.0, count: int = 20) -> list[Progress]:
    """`count` completed batches that took `seconds` each."""
    return [report(n, NOW - 10_000 + n, top={"batchDuration": round(seconds * 1000)}) for n in range(count)]


def running(age: float, seconds: float = 20.0, count: int = 20, launched: float = 9_000.0) -> Window:
    """A batch that was planned `age` seconds ago is running."""
    return window(
        history(seconds, count),
        log=log(count, count - 1, planned_at=NOW - age, committed_at=NOW - age - 1),
        drivers=(driver(1, NOW - launched),),
        driver_alive=True,
    )


def between_batches(
    waiting: WaitingInput | None = None,
    *,
    reports: list[Progress] | None = None,
    newest: int = 19,
    planned_at: float = NOW - 30_010,
    committed_at: float = NOW - 30_000,
) -> Window:
    """The driver lives, and every batch that was planned is committed; by default for more than eight hours."""
    return window(
        reports or history(),
        log=log(newest, newest, planned_at=planned_at, committed_at=committed_at),
        driver_alive=True,
        drivers=(driver(1, NOW - 40_000),),
        waiting=waiting,
    )


@pytest.mark.parametrize(
    ("age", "status"),
    [
        (0, OK),
        (99.999, OK),
        (100, WARNING),
        (100.001, WARNING),
        (300, WARNING),
        (300.001, CRITICAL),
        (14_400, CRITICAL),
    ],
)
def test_the_window_is_p95_times_tolerated_and_two(age: float, status: Status) -> None:
    """p95 20 s > trigger 10 s; (3 + 2) x 20 = 100 s is the window: there WARNING begins, three windows end it."""
    verdict = judge(CHECK, running(age, launched=20_000))
    assert verdict.status is status
    if age:
        assert verdict.evidence["window_s"] == 100


@pytest.mark.parametrize(("trigger", "expected"), [(10.0, 100.0), (20.0, 100.0), (60.0, 300.0), (None, 100.0)])
def test_the_longer_of_trigger_and_p95_counts(trigger: float | None, expected: float) -> None:
    mine = window(
        history(),
        spec=spec(trigger=TriggerSpec(processing_time=trigger)),
        log=log(20, 19, planned_at=NOW - 1),
        driver_alive=True,
        drivers=(driver(1, NOW - 9_000),),
    )
    assert judge(CHECK, mine).evidence["window_s"] == expected


def test_a_window_is_never_shorter_than_a_minute() -> None:
    """Batches of 0.2 s: a pause of 3 s is no stall."""
    assert judge(CHECK, running(59.9, seconds=0.2, count=20)).evidence["window_s"] == 60


def test_one_slow_batch_in_twenty_does_not_stretch_the_window() -> None:
    """p95, not the maximum: one hour-long batch in 100 leaves the window at 100 s."""
    reports = [*history(count=99), report(99, NOW - 5_000, top={"batchDuration": 3_600_000})]
    mine = window(reports, log=log(100, 99, planned_at=NOW - 1), driver_alive=True, drivers=(driver(1, NOW - 9e4),))
    assert judge(CHECK, mine).evidence["window_s"] == 100


def test_a_batch_that_runs_for_hours_is_seen_though_no_report_comes() -> None:
    """The newest report is two hours old and fine; offsets/20 has waited for commits/20 ever since."""
    verdict = judge(CHECK, running(7_200))
    assert verdict.status is CRITICAL
    assert "batch 20 has been running" in verdict.reason
    assert (verdict.evidence["planned"], verdict.evidence["committed"]) == (20, 19)


def five_seconds(*long: float, count: int = 20) -> list[Progress]:
    """Batches of 5 s, the newest ones as long as `long`, one after the other, the last one ended ten seconds ago."""
    durations = [*[5.0] * (count - len(long)), *long]
    start = NOW - 10 - sum(durations)
    begins = [start + sum(durations[:number]) for number in range(count)]
    return [
        report(number, begin, top={"batchDuration": round(1_000 * seconds)})
        for number, (begin, seconds) in enumerate(zip(begins, durations, strict=True))
    ]


def allowed(reports: list[Progress], **changes: object) -> float:
    """The window for a batch that has been running for a second; a trigger of 5 s."""
    mine = window(
        reports,
        spec=spec(source=TOPIC, trigger=TriggerSpec(processing_time=5.0)),
        log=log(len(reports), len(reports) - 1, planned_at=NOW - 1, committed_at=NOW - 10),
        driver_alive=True,
        **{"drivers": (driver(1, NOW - 90_000),), **changes},
    )
    found = judge(CHECK, mine).evidence["window_s"]
    assert isinstance(found, float)
    return found


SIX_MINUTES = (348.0,) * 7
"""Seven batches that a broker which was away held up for six minutes each."""


def test_batches_that_contain_an_outage_do_not_stretch_the_window() -> None:
    """Each was 348 s long, five times that are 29 minutes. What is known of the outages leaves them out."""
    reports = five_seconds(*SIX_MINUTES)
    spans = [["events at b:9092", each.at + 20, each.at + 320] for each in reports[-7:]]
    known = Verdict(stream="orders", check="broker_unreachable", status=OK, at=NOW - 60, evidence={"outages": spans})
    assert allowed(reports, previous={known.check: known}) == 60
    elsewhere = [[source, since - 90_000 / 2, until - 90_000 / 2] for source, since, until in spans]
    other = replace(known, evidence={"outages": elsewhere})
    assert allowed(reports, previous={other.check: other}) == 600, "negative control: outages at other times"


def test_the_measurements_of_an_outage_that_lasts_leave_its_batch_out_too() -> None:
    """One batch in nine was held up, and five attempts of the last ten minutes to reach the broker failed."""
    reports = five_seconds(348.0, count=9)
    missed = tuple(measured("broker_reachable", 0.0, NOW - 60.0 * n, "events at b:9092") for n in range(1, 6))
    assert allowed(reports, measurements=missed) == 60
    answered = tuple(replace(each, value=1.0) for each in missed)
    assert allowed(reports, measurements=answered) == 600, "negative control: every attempt succeeded"


def test_batches_in_which_a_driver_ended_or_began_do_not_stretch_the_window() -> None:
    """Planned before the crash and committed after the restart."""
    reports = five_seconds(*SIX_MINUTES)
    drivers = [driver(0, NOW - 90_000, exit=ended(ExitKind.FAILED, reports[-7].at + 100))]
    for number, each in enumerate(reports[-7:], start=1):
        end = ended(ExitKind.FAILED, each.at + 448) if number < 7 else None
        drivers.append(driver(number, each.at + 200, exit=end))
    assert allowed(reports, drivers=tuple(drivers)) == 60
    assert allowed(reports) == 600, "negative control: one driver ran all the time"


@pytest.mark.parametrize(("seconds", "expected"), [(5.0, 60), (30.0, 150), (120.0, 600), (348.0, 600), (3_600.0, 600)])
def test_a_window_of_short_batches_has_a_ceiling(seconds: float, expected: float) -> None:
    """p95 counts as two minutes at most while half of the batches take 5 s."""
    assert allowed(five_seconds(*(seconds,) * 7)) == expected


@pytest.mark.parametrize(("usual", "longest", "expected"), [(600.0, 900.0, 4_500), (600.0, 3_600.0, 9_000)])
def test_the_ceiling_of_long_batches_is_three_median_ones(usual: float, longest: float, expected: float) -> None:
    """Negative control: a stream whose batches take ten minutes by nature is not said to be stuck in its next one."""
    assert allowed(five_seconds(*(usual,) * 13, *(longest,) * 7)) == expected


@pytest.mark.parametrize("calm", [0, 2])
def test_where_nearly_every_batch_contains_an_outage_they_count_up_to_the_ceiling(calm: int) -> None:
    """Two calm batches are too few for a p95; neither the hour of a first batch nor 29 minutes are given for that."""
    reports = five_seconds(*SIX_MINUTES, count=calm + 7)
    spans = [["events at b:9092", each.at + 20, each.at + 320] for each in reports[-7:]]
    known = Verdict(stream="orders", check="broker_unreachable", status=OK, at=NOW - 60, evidence={"outages": spans})
    assert allowed(reports, previous={known.check: known}) == 600


def test_a_first_batch_may_read_a_long_backlog() -> None:
    """No completed batch to compare with: an hour is allowed, then it is a stall too."""
    assert judge(CHECK, running(3_599, count=2)).status is OK
    assert judge(CHECK, running(3_600, count=2)).status is WARNING
    assert judge(CHECK, running(3_599, count=3)).status is CRITICAL


def test_batch_re_run_by_a_restart_counts_from_the_restart() -> None:
    """Planned two days ago, the driver was stopped over the weekend and is up for 20 s: nothing is stuck."""
    assert judge(CHECK, running(2 * 86_400, launched=20)).status is OK


def test_idle_is_not_stuck() -> None:
    """Nothing planned for a night and no input waits."""
    verdict = judge(CHECK, between_batches(WaitingInput(count=0, size=0, since=None)))
    assert (verdict.status, verdict.value) == (OK, 0.0)
    assert "idle" in verdict.reason


@pytest.mark.parametrize(("waited", "status"), [(99, OK), (100, WARNING), (301, CRITICAL)])
def test_unplanned_input_is_stuck(waited: float, status: Status) -> None:
    """The driver lives, no batch runs, and files have waited since `waited` seconds."""
    assert judge(CHECK, between_batches(WaitingInput(count=7, size=70, since=NOW - waited))).status is status


def test_a_backlog_that_is_being_read_is_not_stuck() -> None:
    """The oldest file has waited for an hour behind others, but a batch was committed 5 s ago."""
    backlog = WaitingInput(count=700, size=70, since=NOW - 3_600)
    assert judge(CHECK, between_batches(backlog, planned_at=NOW - 25, committed_at=NOW - 5)).status is OK


@pytest.mark.parametrize(("committed", "status"), [(99, OK), (7_190, CRITICAL)])
def test_input_of_unknown_age_has_waited_since_the_last_commit(committed: float, status: Status) -> None:
    """Five million records, and the broker did not hand out the oldest in time, or they carry no timestamp."""
    backlog = WaitingInput(what="record", count=5_000_000, since=None)
    mine = between_batches(backlog, planned_at=NOW - committed - 10, committed_at=NOW - committed)
    assert judge(CHECK, mine).status is status


def looks(*times: tuple[float, Window]) -> list[Verdict]:
    """The verdicts on these windows, each `seconds` from NOW and with the verdict before it."""
    found: list[Verdict] = []
    for seconds, each in times:
        previous = {CHECK.name: found[-1]} if found else {}
        found.append(judge(CHECK, replace(each, now=NOW + seconds, previous=previous)))
    return found


def test_input_that_arrives_with_old_timestamps_has_waited_since_it_was_found() -> None:
    """Idle for a night, then a mirror brings records of five hours ago; a look without the broker changes nothing."""
    none, unseen = WaitingInput(count=0, since=None), None
    old = WaitingInput(what="record", count=12, since=NOW - 18_000)
    verdicts = looks(
        (-60, between_batches(none)),
        (0, between_batches(old)),
        (40, between_batches(unseen)),
        (99, between_batches(old)),
        (100, between_batches(old)),
        (301, between_batches(old)),
    )
    assert [each.status for each in verdicts] == [OK, OK, UNKNOWN, OK, WARNING, CRITICAL]


def test_a_look_that_could_not_see_the_input_dates_nothing() -> None:
    """The newest report had no more to read, which says nothing of what came since."""
    end = {"topic": {"0": 50}}
    reports = [*history(), report(20, NOW - 100, source={"latestOffset": end, "endOffset": end})]
    old = WaitingInput(what="record", count=12, since=NOW - 18_000)
    verdicts = looks((-60, between_batches(reports=reports, newest=20)), (0, between_batches(old)))
    assert [each.status for each in verdicts] == [OK, CRITICAL]


def test_where_input_cannot_be_seen_idle_and_stuck_look_the_same() -> None:
    """A script's own source, quiet for hours: nobody can tell, so UNKNOWN."""
    assert judge(CHECK, between_batches()).status is UNKNOWN


def test_a_trigger_that_found_no_data_shows_an_idle_query() -> None:
    assert judge(CHECK, between_batches(reports=[*history(), idle_report(20, NOW - 8)])).status is OK


@pytest.mark.parametrize(
    ("latest", "age", "status"),
    [
        ({"topic": {"0": 50}}, 100, OK),
        ({"topic": {"0": 50}}, 140, OK),
        ({"topic": {"0": 50}}, 141, UNKNOWN),
        ({"topic": {"0": 50}}, 9_000, UNKNOWN),
        ({"topic": {"0": 90}}, 9_000, CRITICAL),
    ],
)
def test_newest_offset_of_a_source_distinguishes_idle_from_stuck(latest: object, age: float, status: Status) -> None:
    """That it had nothing more holds for two minutes and a batch of 20 s; that it had more, until a batch reads it."""
    end = {"topic": {"0": 50}}
    reports = [*history(), report(20, NOW - age, source={"latestOffset": latest, "endOffset": end})]
    assert judge(CHECK, between_batches(reports=reports, newest=20)).status is status


@pytest.mark.parametrize("kind", [ExitKind.STOPPED, ExitKind.COMPLETED])
def test_a_stream_that_was_stopped_on_request_is_not_stalled(kind: ExitKind) -> None:
    gone = driver(1, NOW - 90_000, exit=ended(kind, NOW - 80_000))
    mine = window(history(), log=log(20, 19, planned_at=NOW - 80_001), drivers=(gone,), driver_alive=False)
    verdict = judge(CHECK, mine)
    assert verdict.status is OK
    assert "not running" in verdict.reason


@pytest.mark.parametrize("end", [None, ExitKind.FAILED, ExitKind.KILLED, ExitKind.FENCED])
def test_a_dead_driver_of_a_stream_that_is_wanted_stopped_is_not_stalled(end: ExitKind | None) -> None:
    """It died before the stop, or of it: a batch that outlived the deadline ends with its driver killed."""
    gone = driver(1, NOW - 90_000, exit=ended(end, NOW - 80_000) if end is not None else None)
    mine = window(history(), log=log(20, 19), drivers=(gone,), driver_alive=False, wanted_stopped=True)
    verdict = judge(CHECK, mine)
    assert verdict.status is OK
    assert "not running: the stream should be stopped" in verdict.reason


def test_a_driver_that_lives_though_it_is_wanted_stopped_is_judged_as_any_other() -> None:
    assert judge(CHECK, replace(running(7_200), wanted_stopped=True)).status is CRITICAL


@pytest.mark.parametrize("kind", [ExitKind.FAILED, ExitKind.KILLED, ExitKind.FENCED])
@pytest.mark.parametrize(("gone_for", "status"), [(99, OK), (100, WARNING), (301, CRITICAL)])
def test_a_dead_driver_stalls_its_stream(kind: ExitKind, gone_for: float, status: Status) -> None:
    """A restart within the window is no stall; one that never comes is."""
    gone = driver(1, NOW - 9_000, exit=ended(kind, NOW - gone_for))
    mine = window(history(), log=log(20, 20), drivers=(gone,), driver_alive=False)
    assert judge(CHECK, mine).status is status


def test_a_driver_that_vanished_without_a_record_stalls_its_stream() -> None:
    mine = window(history(), log=log(20, 20), drivers=(driver(1, NOW - 9_000),), driver_alive=False)
    assert judge(CHECK, mine).status is CRITICAL


@pytest.mark.parametrize(
    ("trigger", "batches", "gone_for", "status"),
    [(3_600, 20, 599, OK), (3_600, 20, 17_000, CRITICAL), (86_400, 20, 17_000, CRITICAL), (10, 2, 3_500, CRITICAL)],
)
def test_a_dead_driver_is_given_no_longer_than_a_restart_waits(
    trigger: float, batches: int, gone_for: float, status: Status
) -> None:
    """Neither a long trigger nor the hour of a first batch: the back-off of a restart ends at ten minutes."""
    gone = driver(1, NOW - 90_000, exit=ended(ExitKind.KILLED, NOW - gone_for))
    mine = window(
        history(count=batches),
        spec=spec(trigger=TriggerSpec(processing_time=trigger)),
        log=log(20, 20),
        drivers=(gone,),
        driver_alive=False,
    )
    assert judge(CHECK, mine).status is status


def after_a_pause(
    away: float, age: float, *, before: float | None = None, trigger: TriggerSpec | None = None
) -> Window:
    """The driver that nobody ran before for `away` seconds was launched 15 s before its first batch, `age` old now.

    `before`: the last commit came so many seconds before the stop, which the driver before it obeyed.
    """
    launched = NOW - age - 15
    gone = driver(1, launched - 50_000, exit=ended(ExitKind.STOPPED, launched - away))
    return window(
        history(seconds=2),
        spec=spec(trigger=trigger or TriggerSpec(processing_time=10)),
        log=log(20, 19, planned_at=NOW - age, committed_at=launched - away - (before or 1)),
        drivers=(gone, driver(2, launched)),
        driver_alive=True,
    )


def test_first_batch_after_a_planned_stop_reads_the_accumulated_input() -> None:
    """Three hours of stop, batches of 2 s: the first one may take an hour; after half an hour, half an hour."""
    assert judge(CHECK, after_a_pause(10_800, 185)).status is OK
    assert judge(CHECK, after_a_pause(10_800, 3_599)).status is OK
    assert judge(CHECK, after_a_pause(10_800, 3_600)).status is WARNING
    assert judge(CHECK, after_a_pause(1_800, 1_799)).status is OK
    assert judge(CHECK, after_a_pause(1_800, 1_800)).status is WARNING


def test_the_first_batch_after_a_stop_of_days_is_given_its_hour() -> None:
    """The driver before it is no longer among those of the last day."""
    weekend = after_a_pause(200_000, 1_000)
    assert judge(CHECK, replace(weekend, drivers=weekend.drivers[1:])).status is OK


def test_a_restart_of_a_hung_batch_earns_no_patience() -> None:
    """It hung for three hours and was restarted within 30 s: it is given the minute that every batch is given."""
    assert judge(CHECK, after_a_pause(30, 185, before=10_800)).status is CRITICAL


def test_the_patience_ends_with_the_first_commit() -> None:
    caught_up = replace(after_a_pause(10_800, 185), log=log(20, 19, planned_at=NOW - 185, committed_at=NOW - 186))
    assert judge(CHECK, caught_up).status is CRITICAL


def test_in_real_time_mode_a_first_batch_after_a_stop_is_as_long_as_every_other() -> None:
    assert judge(CHECK, after_a_pause(10_800, 1_000, trigger=TriggerSpec(real_time=30.0))).status is CRITICAL


def test_a_stream_that_never_ran_is_unknown() -> None:
    assert judge(CHECK, window(log=log(None, None))).status is UNKNOWN


def test_an_unreadable_checkpoint_is_unknown() -> None:
    mine = window(history(), driver_alive=True, drivers=(driver(1, NOW - 9_000),))
    verdict = judge(CHECK, mine)
    assert (verdict.status, verdict.reason) == (UNKNOWN, "the checkpoint's logs could not be read")


def test_a_stream_without_a_driver_that_is_wanted_stopped_is_not_stuck() -> None:
    """Its checkpoint is another store's, with a batch that was begun. Negative control: it is wanted running."""
    left = window(log=log(5, 4, planned_at=NOW - 20_000))
    assert judge(CHECK, left).status is Status.CRITICAL
    verdict = judge(CHECK, replace(left, wanted_stopped=True))
    assert (verdict.status, verdict.reason) == (Status.OK, "not running: the stream should be stopped")
