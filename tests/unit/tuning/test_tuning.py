"""Checkpoint interval, partitions, memory, trigger and capacity, each from numbers that it names."""

import math

import pytest

from streamwarden.health.checks.batches import batch_longer_than_trigger
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.settings import DELTAS
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import Backend, HealthSpec, StateSpec, TriggerSpec
from streamwarden.tuning import capacity, checkpoint_interval, memory, partitions, trigger
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.history import History
from streamwarden.tuning.rates import Cost
from streamwarden.tuning.recommendation import Decision, Recommendation
from support.streams.health_windows import NOW, driver, measured, spec
from support.streams.tuning import batch, files, history

RUN = batch(0).run_id
MIB = 2**20


def steady(count: int = 30, **fields) -> History:
    return history([batch(number, **fields) for number in range(count)])


def numbers(advice: Recommendation) -> dict[str, float]:
    return {each.name: each.value for each in advice.numbers}


def test_with_too_little_history_each_topic_says_so_and_advises_nothing() -> None:
    for each in advise(history()):
        assert (each.status, each.settings, each.numbers) == (Decision.UNKNOWN, {}, ())
        assert "too little history" in each.says
    for each in (checkpoint_interval, trigger, capacity):
        assert "19 batches with rows reported, 20 are needed" in each.advise(steady(19)).says


# The checkpoint interval


@pytest.mark.parametrize(
    ("cost", "taken", "accepted", "batches"), [(5, 2, 100, 0.05), (200, 10, 100, 2), (0, 2, 90, 0), (90, 7, 90, 1)]
)
def test_the_interval_is_the_cost_over_the_batch_times_the_tolerance(cost, taken, accepted, batches) -> None:
    assert checkpoint_interval.interval(cost, taken, accepted) == pytest.approx(batches)


def test_the_interval_needs_a_batch_and_a_recovery() -> None:
    for seconds, accepted in ((0, 90), (2, 0)):
        with pytest.raises(ValueError, match="longer than no time"):
            checkpoint_interval.interval(1, seconds, accepted)


def test_the_replay_bounds_the_batches_between_two_snapshots() -> None:
    assert checkpoint_interval.most_batches(1000, 24e-6, 2.4) == pytest.approx(100)
    assert checkpoint_interval.most_batches(1000, 24e-6, -1) == 0
    assert checkpoint_interval.most_batches(0, 24e-6, 1) == math.inf


def test_snapshots_as_the_runner_makes_them_are_left_where_the_replay_is_short() -> None:
    advice = checkpoint_interval.advise(steady(numRowsUpdated=1000, numRowsRemoved=0))
    assert advice.status is Decision.KEEP
    assert "commit every batch" in advice.says
    found = numbers(advice)
    assert found["left for the replay"] == pytest.approx(90 - 15 - 0.04 - 2, abs=0.01)
    assert found["snapshots at most"] == pytest.approx(found["left for the replay"] / (1000 * 24e-6))


def test_where_batches_change_much_snapshots_are_made_more_often() -> None:
    """A million changed rows a batch take 24 s to replay: three batches at most, one of them waits for the upload."""
    advice = checkpoint_interval.advise(steady(numRowsUpdated=1_000_000, numRowsRemoved=0))
    assert advice.status is Decision.CHANGE
    assert advice.settings == {DELTAS: "2"}


def test_no_interval_helps_where_the_start_alone_takes_too_long() -> None:
    slow = driver(1, NOW - 9000, started_at=NOW - 9000 + 120)
    found = history([batch(number) for number in range(30)], drivers=(slow,))
    advice = checkpoint_interval.advise(found)
    assert advice.status is Decision.CHANGE
    assert "No snapshot interval meets" in advice.says
    assert advice.settings == {}


def test_the_accepted_recovery_is_that_of_the_drill() -> None:
    found = history(
        [batch(number) for number in range(30)], acceptable_recovery=(60.0, "recovery target of the drill kill")
    )
    (number,) = [each for each in checkpoint_interval.advise(found).numbers if each.name == "accepted recovery"]
    assert (number.value, number.source) == (60.0, "recovery target of the drill kill")


# Partitions


@pytest.mark.parametrize(
    ("now", "size", "wanted"),
    [(4, 4_000_000, None), (200, 4_000_000, "2"), (1, 4_000_000, "2"), (4, 6_000_000_000, "12")],
)
def test_there_are_as_many_partitions_as_cores_unless_one_is_too_large(now, size, wanted) -> None:
    found = history(
        [batch(0, numShufflePartitions=now)],
        files=files(bytes=size, by_partition=dict.fromkeys(range(now), size // now)),
    )
    advice = partitions.advise(found)
    assert advice.settings.get("state.shuffle_partitions") == wanted
    assert advice.status is (Decision.CHANGE if wanted else Decision.KEEP)


def test_more_partitions_do_not_help_against_one_large_key() -> None:
    skewed = files(bytes=4_000, by_partition={0: 3_400, 1: 200, 2: 200, 3: 200})
    assert "another key does" in partitions.advise(history([batch(0, numShufflePartitions=4)], files=skewed)).says


# Memory


@pytest.mark.parametrize(("state", "wanted"), [(100_000_000, None), (600_000_000, "2289 MiB")])
def test_the_heap_has_room_for_four_times_the_state_that_lies_on_it(state, wanted) -> None:
    on_heap = spec(state=StateSpec(backend=Backend.HDFS), spark=SparkSpec(master="local[2]", driver_memory=2 * 10**9))
    reports = [batch(number, backend="hdfs", memoryUsedBytes=state) for number in range(3)]
    resident = (measured("resident_bytes", 1_000_000_000, NOW - 60),)
    advice = memory.advise(history(reports, on_heap, measurements=resident))
    assert advice.settings.get("spark.driver_memory") == wanted
    heap = 2289 * MIB if wanted else 2 * 10**9
    assert numbers(advice)["limit"] == heap + 384 * MIB


@pytest.mark.parametrize(
    ("backend", "heap", "peak", "limit"),
    [
        (Backend.HDFS, 1000 * MIB, 100 * MIB, 1384 * MIB),
        (Backend.HDFS, 8000 * MIB, 100 * MIB, 8800 * MIB),
        (Backend.ROCKSDB, 1000 * MIB, 100 * MIB, 1896 * MIB),
        (Backend.ROCKSDB, 1000 * MIB, 1600 * MIB, 2000 * MIB),
    ],
)
def test_the_limit_of_a_process_is_never_less_than_its_full_heap_needs(backend, heap, peak, limit) -> None:
    """A heap fills up some day; what was seen so far is no bound."""
    of = spec(state=StateSpec(backend=backend), spark=SparkSpec(master="local[2]", driver_memory=heap))
    reports = [batch(0, backend=str(backend), memoryUsedBytes=1_000_000)]
    advice = memory.advise(history(reports, of, measurements=(measured("resident_bytes", peak, NOW),)))
    assert numbers(advice)["limit"] == limit


def test_the_limit_of_the_process_leaves_room_for_its_standby() -> None:
    reports = [batch(0, memoryUsedBytes=1_000_000)]
    peaks = (measured("resident_bytes", 2000 * MIB, NOW), measured("standby_resident_bytes", 600 * MIB, NOW))
    assert numbers(memory.advise(history(reports, measurements=peaks)))["resident memory"] == 2600 * MIB


def on_cluster(*, executors: int, used: float, limit: float) -> list:
    """What the driver measured of its executors; the first took what is said, the others half of it."""
    counts = [measured("executors_active", executors, NOW), measured("executors_lost", 0, NOW)]
    for number in range(executors):
        source = f"executor {number}"
        counts += [
            measured("executor_bytes", used / (2 if number else 1), NOW, source=source),
            measured("executor_limit_bytes", limit, NOW, source=source),
        ]
    return counts


@pytest.mark.parametrize(
    ("backend", "state", "used", "settings"),
    [
        (Backend.ROCKSDB, 3e9, 1000 * MIB, {}),
        (Backend.ROCKSDB, 3e9, 1900 * MIB, {"spark.executors.memory_overhead": "1351 MiB"}),
        (Backend.HDFS, 500 * MIB, 1000 * MIB, {}),
        (Backend.HDFS, 1000 * MIB, 1000 * MIB, {"spark.executors.memory": "2000 MiB"}),
        (
            Backend.HDFS,
            1000 * MIB,
            3000 * MIB,
            {"spark.executors.memory": "2000 MiB", "spark.executors.memory_overhead": "1750 MiB"},
        ),
    ],
    ids=["enough", "beside the heap", "on the heap", "a larger heap is a larger limit", "and is not always enough"],
)
def test_on_a_cluster_the_executors_hold_the_state(backend, state, used, settings) -> None:
    """Two of them, each with half of it; the driver's heap, which is tiny here, has none."""
    executors = ExecutorsSpec(instances=2, memory=1024 * MIB)
    of = spec(
        state=StateSpec(backend=backend),
        spark=SparkSpec(master="spark://m:7077", driver_memory=100 * MIB, executors=executors),
    )
    reports = [batch(number, backend=str(backend), memoryUsedBytes=int(state)) for number in range(3)]
    known = (
        measured("resident_bytes", 1e9, NOW),
        *on_cluster(executors=2, used=used, limit=2000 * MIB),
    )
    advice = memory.advise(history(reports, of, measurements=known))
    assert advice.settings == settings
    assert numbers(advice)["state in memory"] == state / 2
    assert numbers(advice)["resident memory"] == used


def test_unmeasured_executors_get_no_recommendation() -> None:
    """The driver's memory says nothing of theirs."""
    of = spec(spark=SparkSpec(master="yarn"))
    advice = memory.advise(history([batch(0)], of, measurements=(measured("resident_bytes", 1e9, NOW),)))
    assert (advice.status, "of the executors" in advice.says) == (Decision.UNKNOWN, True)


def test_rocksdbs_memory_is_beside_the_heap() -> None:
    reports = [batch(0, memoryUsedBytes=600_000_000)]
    advice = memory.advise(history(reports, measurements=(measured("resident_bytes", 1e9, NOW),)))
    assert (advice.status, advice.settings) == (Decision.KEEP, {})


# Trigger


@pytest.mark.parametrize(
    ("fixed", "per_row", "rate", "seconds"), [(1.0, 0.001, 300, 2), (1.0, 0, 300, 1.25), (1.0, 0.001, 800, math.inf)]
)
def test_the_shortest_trigger_leaves_a_fifth_of_it(fixed, per_row, rate, seconds) -> None:
    assert trigger.shortest(Cost(fixed=fixed, per_row=per_row, source=""), rate) == pytest.approx(seconds)


def varied(of=None, *, slower: float = 1.0) -> History:
    """Batches of 1,000 to 4,000 rows that take 1 s and 1 ms a row, ten seconds apart."""
    reports = [
        batch(number, rows=rows, seconds=slower * (1 + rows / 1000))
        for number, rows in enumerate([1000, 2000, 3000, 4000] * 8)
    ]
    return history(reports, of)


def test_fixed_and_per_row_time_are_separated_by_the_rows() -> None:
    """250 rows a second: 1 / (0.8 - 0.25) s."""
    advice = trigger.advise(varied())
    found = numbers(advice)
    assert (found["fixed cost of a batch"], found["cost of a row"]) == pytest.approx((1.0, 0.001), rel=0.01)
    assert found["rows a second"] == pytest.approx(248, rel=0.02)
    assert found["shortest trigger"] == pytest.approx(1 / (0.8 - 0.248), rel=0.02)
    assert advice.status is Decision.KEEP


def judged(found: History) -> Status:
    return found.judge(batch_longer_than_trigger.CHECK).status


@pytest.mark.parametrize("seconds", [1.0, 3.0, 10.0, 60.0])
def test_the_check_and_the_advice_never_contradict_each_other(seconds: float) -> None:
    """An alarm is never answered with "leave it", and with the recommended trigger the same batches raise none."""
    found = varied(spec(trigger=TriggerSpec(processing_time=seconds)))
    advice = trigger.advise(found)
    alarm = judged(found) in (Status.WARNING, Status.CRITICAL)
    assert (advice.status is Decision.CHANGE) == (alarm or numbers(advice)["batch"] > 0.8 * seconds)
    if alarm:
        assert "batch_longer_than_trigger" in advice.says
        value = float(advice.settings["trigger.processing_time"].split()[0])
        assert judged(varied(spec(trigger=TriggerSpec(processing_time=value)))) is Status.OK


def test_a_trigger_that_batches_nearly_fill_is_lengthened() -> None:
    """No alarm yet, but a slow batch delays the next: 4.5 s of 5 s."""
    found = history([batch(n, seconds=4.5) for n in range(30)], spec(trigger=TriggerSpec(processing_time=5.0)))
    advice = trigger.advise(found)
    assert judged(found) is Status.OK
    assert (advice.status, advice.settings) == (Decision.CHANGE, {"trigger.processing_time": "6 seconds"})


def test_the_limits_of_the_stream_count() -> None:
    """Its owner allows batches of three triggers: no alarm, but there is no room left."""
    loose = spec(
        trigger=TriggerSpec(processing_time=2.0),
        health=HealthSpec(thresholds={"batch_longer_than_trigger": {"warning": 3.0, "critical": 5.0}}),
    )
    assert judged(varied(loose)) is Status.OK
    assert "so that a slow one delays the next" in trigger.advise(varied(loose)).says


def test_no_trigger_helps_where_rows_come_faster_than_they_are_read() -> None:
    advice = trigger.advise(varied(spec(trigger=TriggerSpec(processing_time=5.0)), slower=4.0))
    assert advice.status is Decision.CHANGE
    assert "no trigger is long enough" in advice.says
    assert advice.settings == {}


def test_batches_of_one_size_count_as_their_rows() -> None:
    """The less hopeful of the two ways to read them."""
    (source,) = {each.source for each in trigger.advise(steady()).numbers if each.name == "cost of a row"}
    assert "about one size" in source


# Capacity


@pytest.mark.parametrize(("rate", "down", "needed"), [(1000, 0, 1000), (1000, 180, 1100), (1000, 1800, 2000)])
def test_what_came_while_the_stream_was_down_is_read_within_half_an_hour(rate, down, needed) -> None:
    assert capacity.needed(rate, down) == pytest.approx(needed)


def restarted(seconds: float) -> tuple:
    first = batch(0)
    return (driver(1, first.at + 2.0 - seconds, run_id=RUN, started_at=first.at),)


def test_the_rate_needed_stands_beside_the_best_that_was_seen() -> None:
    """1,000 rows each 10 s, read in 2 s; the restart took 180 s."""
    found = history([batch(number) for number in range(30)], drivers=restarted(180.0))
    advice = capacity.advise(found)
    got = numbers(advice)
    assert got["restart"] == pytest.approx(180, abs=0.01)
    assert got["rate needed"] == pytest.approx(100 * 1.1, rel=0.01)
    assert got["rate seen"] == 500
    assert advice.status is Decision.KEEP


def test_the_first_batch_of_a_long_history_is_not_the_drivers_first() -> None:
    """The driver started 25 minutes ago. The history holds its newest 30 batches; the store knows its first."""
    first, newest = batch(0), [batch(number) for number in range(150, 180)]
    driver_of = (driver(1, first.at - 27.6, run_id=RUN, started_at=first.at - 1),)
    known = history(newest, drivers=driver_of, first_reports={RUN: first})
    assert numbers(capacity.advise(known))["restart"] == pytest.approx(29.6)
    assert capacity.advise(history(newest, drivers=driver_of, first_reports={})).status is Decision.UNKNOWN


def test_a_wait_for_input_is_not_part_of_a_restart() -> None:
    """The query ran after 20 s; the first file came an hour later."""
    first = batch(0)
    waited = (driver(1, first.at - 3620, run_id=RUN, started_at=first.at - 3600),)
    found = history([batch(number) for number in range(30)], drivers=waited)
    assert numbers(capacity.advise(found))["restart"] == pytest.approx(20 + 5 + 2)


def test_stream_that_cannot_catch_up_is_reported() -> None:
    """It reads as fast as rows come, no faster."""
    found = history([batch(number, seconds=10.0) for number in range(30)], drivers=restarted(180.0))
    advice = capacity.advise(found)
    assert advice.status is Decision.CHANGE
    assert "1.1 times the cores" in advice.says


def test_without_a_measured_restart_no_capacity_is_reported() -> None:
    advice = capacity.advise(steady())
    assert advice.status is Decision.UNKNOWN
    assert "no restart was measured" in advice.says


# Real-time mode


def test_in_real_time_mode_nothing_is_concluded_from_how_long_a_batch_takes() -> None:
    live = spec(
        trigger=TriggerSpec(real_time=30.0), state=StateSpec(shuffle_partitions=2), spark=SparkSpec(master="local[4]")
    )
    known = history([batch(number) for number in range(30)], of=live, files=files())
    assert capacity.advise(known).status is Decision.UNKNOWN
    assert trigger.advise(known).status is Decision.KEEP
    assert numbers(partitions.advise(known))["cores"] == 2
