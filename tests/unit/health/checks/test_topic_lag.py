"""The rules for a topic's lag in their order: caught up, stalled, rewinding, never catching up; a look each minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from streamwarden.health.checks.input import topic_lag
from streamwarden.health.checks.input.input_lost import RECREATED
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import PartitionLag, WaitingInput
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import SourceSpec, StreamSpec, TriggerSpec
from support.streams.health_windows import NOW, driver, ended, judge, log, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
TOPIC = KafkaSource(connection="events", topic="events")
MINUTE = 60.0

Seen = tuple[int, int]
"""Committed offset and end of a partition."""


def stream(**changes: object) -> StreamSpec:
    return spec(**{"source": TOPIC, "trigger": TriggerSpec(processing_time=0.0), **changes})


def measured(*partitions: Seen, first: int = 0, since: float | None = None) -> WaitingInput:
    lags = {
        f"events-{number}": PartitionLag(
            partition=number, planned=committed, committed=committed, first=first, last=end, since=since
        )
        for number, (committed, end) in enumerate(partitions)
    }
    return WaitingInput(what="record", count=sum(lag.waiting for lag in lags.values()), since=since, partitions=lags)


def course(
    series: Iterable[Sequence[Seen]],
    *,
    step: float = MINUTE,
    before: Verdict | None = None,
    begin: float = NOW,
    drivers: tuple[DriverRecord, ...] = (),
    of: StreamSpec | None = None,
    wanted_stopped: bool = False,
) -> Verdict:
    """The verdict on the last of these measurements, `step` seconds apart, each made with the verdict before it."""
    verdict = before
    for number, partitions in enumerate(series):
        previous = {} if verdict is None else {"topic_lag": verdict}
        mine = window(
            spec=of or stream(),
            now=begin + step * number,
            log=log(3, 3),
            waiting=measured(*partitions),
            previous=previous,
            drivers=drivers,
            wanted_stopped=wanted_stopped,
        )
        verdict = judge(topic_lag.CHECK, mine)
    assert verdict is not None
    return verdict


def still(minutes: int, *, behind: int = 5) -> list[list[Seen]]:
    """The offset stays at 100 for so many minutes, while records wait."""
    return [[(100, 100 + behind)]] * (minutes + 1)


def growing(minutes: int) -> list[list[Seen]]:
    """Ten records a minute are read, and thirty come."""
    return [[(100 + 10 * n, 200 + 30 * n)] for n in range(minutes + 1)]


def test_caught_up_needs_no_history() -> None:
    verdict = course([[(100, 100), (7, 7)]])
    assert (verdict.status, verdict.value) == (OK, 0)
    assert "every record is read and committed" in verdict.reason


def test_records_that_wait_at_the_only_measurement_say_nothing_yet() -> None:
    verdict = course([[(100, 105), (7, 7)]])
    assert verdict.status is UNKNOWN
    assert "measured once" in verdict.reason
    assert "events-0: 5 records wait" in verdict.reason


@pytest.mark.parametrize(
    ("minutes", "status", "rule"),
    [
        (1, OK, "following"),
        (2, OK, "following"),
        (3, UNKNOWN, "standing still"),
        (6, UNKNOWN, "standing still"),
        (9, UNKNOWN, "standing still"),
        (10, WARNING, "stalled"),
        (60, WARNING, "stalled"),
        (61, CRITICAL, "stalled"),
    ],
)
def test_stalled_while_records_wait(minutes: int, status: Status, rule: str) -> None:
    """Ten minutes are WARNING, an hour is too, more is CRITICAL; after two minutes it is not said to be followed."""
    verdict = course(still(minutes))
    assert (verdict.status, verdict.value) == (status, minutes * MINUTE)
    assert verdict.reason.startswith(f"{rule}, 1 of 1 partitions: events-0: 5 records wait")
    assert ("following" in verdict.reason) == (rule == "following")


def test_stalled_partition_is_reported_while_others_advance() -> None:
    verdict = course([[(100, 105), (50 + n, 90 + n)] for n in range(7)])
    assert verdict.status is UNKNOWN
    words = "events-0: 5 records wait, and the committed offset 100 has not moved for 6m"
    assert f"standing still, 1 of 2 partitions: {words}" in verdict.reason


def test_partition_its_records_and_their_age_are_reported() -> None:
    verdict = course(still(9))
    mine = window(
        spec=stream(),
        now=NOW + 10 * MINUTE,
        log=log(3, 3),
        waiting=measured((100, 1_334), (9, 9), since=NOW - 4 * MINUTE),
        previous={"topic_lag": verdict},
    )
    verdict = judge(topic_lag.CHECK, mine)
    told = "events-0: 1,234 records wait, the oldest for 14m, and the committed offset 100 has not moved for 10m"
    assert f"stalled, 1 of 2 partitions: {told}" in verdict.reason
    assert verdict.evidence["partitions"] == {
        "events-0": f"stalled: {told.removeprefix('events-0: ')}",
        "events-1": "caught up: no record waits",
    }


@pytest.mark.parametrize(("minutes", "status"), [(14, OK), (24, OK), (25, WARNING)])
def test_between_two_batches_of_a_slow_trigger_a_lag_only_grows(minutes: int, status: Status) -> None:
    """A batch each quarter of an hour: what is more than one trigger and ten minutes grows too long."""
    slow = stream(trigger=TriggerSpec(processing_time=900.0))
    assert course(growing(minutes), of=slow).status is status


def test_an_idle_topic_is_not_stalled() -> None:
    """Negative control: the offset stands still for two hours, and nothing waits."""
    assert course([[(100, 100)]] * 120).status is OK


def test_an_offset_that_moves_by_one_record_is_not_stalled() -> None:
    """Negative control: a thousand records wait, always, and the stream reads on."""
    verdict = course([[(100 + n, 1_100 + n)] for n in range(120)])
    assert (verdict.status, verdict.value) == (OK, 0)
    assert "following, 1 of 1 partitions: events-0: 1,000 records wait" in verdict.reason


def test_records_that_have_just_come_are_not_old() -> None:
    """Two hours without input, then some: the clock of a stall starts with the first measurement that saw them."""
    quiet = course([[(100, 100)]] * 120)
    verdict = course([[(100, 105)]] * 2, before=quiet, begin=NOW + 120 * MINUTE)
    assert (verdict.status, verdict.value) == (OK, MINUTE)


def test_caught_up_comes_before_all_that_was() -> None:
    """An hour and a half of stall, then everything is read."""
    verdict = course(still(90))
    assert verdict.status is CRITICAL
    assert course([[(105, 105)]], before=verdict, begin=NOW + 91 * MINUTE).status is OK


@pytest.mark.parametrize("trigger", [TriggerSpec(processing_time=300.0), TriggerSpec(real_time=300.0)])
def test_one_trigger_may_stand_still(trigger: TriggerSpec) -> None:
    """One of 5 minutes, or a batch of that length: 14 minutes without an advance are 9 too many, 15 are 10. Two minutes
    beyond a trigger are still well."""
    slow = stream(trigger=trigger)
    assert course(still(7), of=slow).status is OK
    assert course(still(14), of=slow).status is UNKNOWN
    assert course(still(15), of=slow).status is WARNING


def test_one_batch_may_stand_still() -> None:
    verdict = course(still(14))
    batches = [report(n, top={"batchDuration": 480_000}) for n in range(5)]
    mine = window(
        batches,
        spec=stream(),
        now=NOW + 15 * MINUTE,
        log=log(3, 3),
        waiting=measured((100, 105)),
        previous={"topic_lag": verdict},
    )
    assert judge(topic_lag.CHECK, mine).value == 7 * MINUTE, "batches of 8 minutes"


@pytest.mark.parametrize(
    ("kind", "status"),
    [(ExitKind.STOPPED, OK), (ExitKind.COMPLETED, OK), (ExitKind.FAILED, CRITICAL), (ExitKind.KILLED, CRITICAL)],
)
def test_what_was_stopped_on_request_does_not_stall(kind: ExitKind, status: Status) -> None:
    gone = driver(1, NOW - 9_000, exit=ended(kind, NOW))
    verdict = course(still(90), drivers=(gone,))
    assert verdict.status is status
    assert ("waiting until the stream is started: 5 records" in verdict.reason) == (status is OK)


def test_a_stream_that_is_wanted_stopped_after_its_driver_died_does_not_stall() -> None:
    gone = driver(1, NOW - 9_000, exit=ended(ExitKind.FAILED, NOW))
    verdict = course(still(90), drivers=(gone,), wanted_stopped=True)
    assert verdict.status is OK
    assert "waiting until the stream is started: 5 records" in verdict.reason


def test_the_time_that_a_stream_was_stopped_does_not_count() -> None:
    stopped = driver(1, NOW - 9_000, exit=ended(ExitKind.STOPPED, NOW))
    down = course(still(90), drivers=(stopped,))
    begin = NOW + 91 * MINUTE
    again = driver(2, begin - 30)
    verdict = course(still(1), before=down, begin=begin, drivers=(stopped, again))
    assert (verdict.status, verdict.value) == (OK, 90)
    verdict = course(still(5), before=down, begin=begin, drivers=(stopped, again))
    assert (verdict.status, verdict.value) == (UNKNOWN, 330)


def test_a_driver_that_dies_and_is_replaced_all_the_time_stalls() -> None:
    """Each lives for five minutes and commits nothing."""
    drivers = [driver(n, NOW + 300.0 * n, exit=ended(ExitKind.KILLED, NOW + 300.0 * (n + 1))) for n in range(6)]
    assert course(still(30), drivers=(*drivers, driver(6, NOW + 1_795))).status is WARNING


def test_an_offset_that_goes_back_is_a_warning_until_it_is_where_it_was() -> None:
    """A restored checkpoint: records 40 to 99 are read again."""
    verdict = course([[(100, 120)], [(40, 120)], [(50, 120)]])
    assert verdict.status is WARNING
    assert "rewinding, 1 of 1 partitions" in verdict.reason
    assert "the committed offset went back from 100 to 50; 70 records wait" in verdict.reason
    assert course([[(99, 120)]], before=verdict, begin=NOW + 3 * MINUTE).status is WARNING
    assert course([[(100, 120)]], before=verdict, begin=NOW + 3 * MINUTE).status is OK


def test_a_stall_comes_before_a_rewind() -> None:
    verdict = course([[(100, 120)], *[[(40, 120)]] * 11])
    assert (verdict.status, verdict.value) == (WARNING, 10 * MINUTE)
    assert "stalled" in verdict.reason


def test_a_topic_that_ends_before_the_committed_offset_was_recreated() -> None:
    """Not caught up, although nothing waits; the first measurement tells it, and the advice is for that cause."""
    verdict = course([[(100, 40)]])
    assert verdict.status is CRITICAL
    assert verdict.advice == RECREATED
    assert "it ends at 40, before the committed offset 100: the topic was recreated" in verdict.reason


@pytest.mark.parametrize(("minutes", "status"), [(9, OK), (10, WARNING), (60, WARNING), (61, CRITICAL)])
def test_never_catching_up(minutes: int, status: Status) -> None:
    """The offset advances at each measurement, and more records wait each time."""
    verdict = course(growing(minutes))
    assert (verdict.status, verdict.value) == (status, minutes * MINUTE)
    if status is not OK:
        told = f"{100 + 20 * minutes:,} records wait, more at each of {minutes} measurements in"
        assert f"never catching up, 1 of 1 partitions: events-0: {told}" in verdict.reason


@pytest.mark.parametrize(("minutes", "status"), [(4, OK), (5, WARNING)])
def test_few_measurements_far_apart_are_no_trend(minutes: int, status: Status) -> None:
    """The observer looks each ten minutes: five times more must have waited than the time before."""
    assert course(growing(minutes), step=600.0).status is status


@pytest.mark.parametrize("lag", [0, 20, 45])
def test_a_lag_that_shrinks_once_is_caught_up_with_now_and_then(lag: int) -> None:
    """Negative control: the same growth for two hours, and once in nine minutes a smaller lag."""
    series = [[(100 + 10 * n, 100 + 10 * n + (lag if n % 9 == 0 else 50 + n))] for n in range(120)]
    verdict = course(series)
    assert verdict.status is OK
    assert verdict.value is not None
    assert verdict.value < 600


def test_a_steady_lag_is_not_a_growing_one() -> None:
    """Negative control: what a stream with a trigger always has in flight."""
    assert course([[(100 + 50 * n, 175 + 50 * n)] for n in range(120)]).status is OK


def test_the_worst_partition_counts_and_a_few_are_named() -> None:
    """Five stall, one is never caught up with, one is well."""
    series = [[*[(100, 100 + n)] * 5, (100 + n, 100 + 3 * n), (50, 50)] for n in range(1, 13)]
    verdict = course(series)
    assert verdict.status is WARNING
    assert "stalled, 5 of 7 partitions: events-" in verdict.reason
    assert "; and 2 more (" in verdict.reason
    told = verdict.evidence["partitions"]
    assert isinstance(told, dict)
    assert [each.partition(":")[0] for each in told.values()] == ["stalled"] * 5 + ["never catching up", "caught up"]


def test_a_partition_that_was_added_begins_its_own_history() -> None:
    verdict = course(still(8))
    verdict = course([[(100, 105), (0, 70)]] * 3, before=verdict, begin=NOW + 9 * MINUTE)
    assert "stalled, 1 of 2 partitions: events-0" in verdict.reason


def test_a_broker_that_does_not_answer_for_a_while_takes_no_history() -> None:
    verdict = course(still(8))
    silent = window(spec=stream(), now=NOW + 9 * MINUTE, log=log(3, 3), waiting=None, previous={"topic_lag": verdict})
    unknown = judge(topic_lag.CHECK, silent)
    assert (unknown.status, unknown.reason) == (UNKNOWN, "the broker did not report its offsets")
    assert course(still(0), before=unknown, begin=NOW + 10 * MINUTE).status is WARNING


def test_a_look_by_hand_between_two_measurements_changes_nothing() -> None:
    """A second after the last one nothing has come yet: a lag that only grew goes on to have done so."""
    verdict = course(growing(9))
    by_hand = course([growing(9)[-1]], before=verdict, begin=NOW + 9 * MINUTE + 1)
    assert course([growing(10)[-1]], before=by_hand, begin=NOW + 10 * MINUTE).status is WARNING


@pytest.mark.parametrize("change", [{"query_id": "another"}, {"courses": {"events-0": {"version": 9}}}, {"at": None}])
def test_a_history_of_another_query_or_version_is_not_believed(change: dict[str, object]) -> None:
    verdict = course(still(90))
    kept = {**verdict.evidence, **change}
    odd = replace(verdict, evidence={name: value for name, value in kept.items() if value is not None})
    assert course([[(100, 105)]], before=odd, begin=NOW + 91 * MINUTE).status is UNKNOWN


def test_records_that_the_retention_took_do_not_wait() -> None:
    mine = window(spec=stream(), log=log(3, 3), waiting=measured((100, 105), first=105))
    assert judge(topic_lag.CHECK, mine).status is OK, "input_lost tells of them"


@pytest.mark.parametrize(("source", "status"), [(FilesSource(path="/in"), OK), (SourceSpec(), UNKNOWN)])
def test_another_source_has_no_offsets_to_lag_behind(source: SourceSpec, status: Status) -> None:
    assert judge(topic_lag.CHECK, window(spec=spec(source=source), log=log(3, 3))).status is status


def test_a_stream_without_a_batch_is_unknown() -> None:
    assert judge(topic_lag.CHECK, window(spec=stream(), log=log(None, None))).status is UNKNOWN
