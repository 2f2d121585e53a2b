"""The five documented checks at every boundary: just below, exactly at and just above each limit."""

from __future__ import annotations

import pytest

from streamwarden.health.checks.batches import checkpoint_duration
from streamwarden.health.checks.driver import memory_usage
from streamwarden.health.checks.state import state_cleanup_time, state_size, state_update_latency
from streamwarden.health.signals.series import STANDBY_BYTES, cores
from streamwarden.health.verdict import Status
from streamwarden.health.window import Measurement, Window
from streamwarden.spark.executors.memory import Memory
from streamwarden.spark.executors.metrics import SparkExecutor
from streamwarden.spark.executors.watch import measurements
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from support.streams.health_windows import NOW, STREAM, judge, measured, report, resident, spec, window

GB = 10**9
OK, WARNING, CRITICAL = Status.OK, Status.WARNING, Status.CRITICAL


def _state(size: int, backend: str) -> Window:
    if backend == "hdfs":
        custom, operator = {"stateOnCurrentVersionSizeBytes": size}, {"memoryUsedBytes": 3 * size}
    else:
        custom, operator = {"rocksdbSstFileSize": size - 1000}, {"memoryUsedBytes": 1000}
    return window(report(batch, backend=backend, custom=custom, operator=operator) for batch in range(5))


@pytest.mark.parametrize("backend", ["rocksdb", "hdfs"])
@pytest.mark.parametrize(
    ("size", "status"),
    [
        (2000, OK),
        (GB - 1, OK),
        (GB, WARNING),
        (GB + 1, WARNING),
        (5 * GB, WARNING),
        (5 * GB + 1, CRITICAL),
        (2**30, WARNING),
        (50 * GB, CRITICAL),
    ],
)
def test_state_size_is_judged_in_decimal_gigabytes(size: int, status: Status, backend: str) -> None:
    """Exactly 1 GB and exactly 5 GB are WARNING, a byte more than 5 GB is CRITICAL; 1 GB is 10^9 bytes."""
    verdict = judge(state_size.CHECK, _state(size, backend))
    assert (verdict.status, verdict.value) == (status, size)
    assert bool(verdict.advice) is (status is not OK)


@pytest.mark.parametrize(
    ("milliseconds", "status"),
    [(0, OK), (9_999, OK), (10_000, WARNING), (10_001, WARNING), (30_000, WARNING), (30_001, CRITICAL)],
)
def test_checkpoint_duration_adds_both_logs_and_the_state_commit(milliseconds: int, status: Status) -> None:
    """10 s and 30 s are WARNING; a tenth is spent in each log, the rest in the state commit of two cores."""
    tenth = milliseconds // 10
    durations = {"walCommit": tenth, "commitOffsets": tenth, "addBatch": milliseconds}
    operator = {"commitTimeMs": 2 * (milliseconds - 2 * tenth)}  # a sum over tasks, two at a time
    verdict = judge(
        checkpoint_duration.CHECK, window(report(batch, durations=durations, operator=operator) for batch in range(5))
    )
    assert (verdict.status, verdict.value) == (status, milliseconds / 1000)


@pytest.mark.parametrize(
    ("master", "conf", "partitions", "expected"),
    [
        ("local[2]", {}, 4, 4.0),
        ("local[8]", {}, 4, 2.0),
        ("local[4,3]", {}, 4, 2.0),
        ("local", {}, 4, 8.0),
        ("local[2]", {}, 1, 8.0),
        ("local[2]", {}, None, 4.0),
        ("local[*]", {}, 4, 8.0),
        ("yarn", {}, 4, 8.0),
        ("yarn", {"spark.executor.instances": "2", "spark.executor.cores": "2"}, 8, 2.0),
        ("spark://host:7077", {"spark.cores.max": "4"}, 8, 2.0),
        ("spark://host:7077", {"spark.cores.max": "many"}, 8, 8.0),
    ],
)
def test_sum_over_tasks_becomes_wall_time_by_concurrent_tasks(
    master: str, conf: dict[str, str], partitions: int | None, expected: float
) -> None:
    """min(partitions, cores) ran at once; where the cores are not known the sum is an upper bound."""
    reports = [
        report(
            batch,
            durations={"walCommit": 0, "commitOffsets": 0, "addBatch": 60_000},
            operator={"commitTimeMs": 8_000, "numShufflePartitions": partitions},
        )
        for batch in range(5)
    ]
    verdict = judge(checkpoint_duration.CHECK, window(reports, spec=spec(spark=SparkSpec(master=master, conf=conf))))
    assert verdict.value == expected


def test_the_executors_of_the_spec_say_how_much_runs_at_once() -> None:
    executors = ExecutorsSpec(instances=2, cores=3)
    assert cores(spec(spark=SparkSpec(master="yarn", executors=executors))) == 6
    assert cores(spec(spark=SparkSpec(master="yarn", executors=executors, conf={"spark.cores.max": "4"}))) == 4
    assert cores(spec(spark=SparkSpec(master="yarn"))) is None


def test_state_commits_never_take_longer_than_the_batch_they_are_in() -> None:
    """200 tasks on an unknown number of cores report 40 s in a batch whose work took 3 s."""
    reports = [
        report(
            batch,
            durations={"walCommit": 0, "commitOffsets": 0, "addBatch": 3_000},
            operator={"commitTimeMs": 40_000, "numShufflePartitions": 200},
        )
        for batch in range(5)
    ]
    verdict = judge(checkpoint_duration.CHECK, window(reports, spec=spec(spark=SparkSpec(master="yarn"))))
    assert (verdict.status, verdict.value) == (OK, 3.0)


@pytest.mark.parametrize(
    ("update_ms", "status"),
    [(0, OK), (9_999, OK), (10_000, WARNING), (50_000, WARNING), (50_001, CRITICAL)],
)
def test_update_latency_is_time_per_updated_row(update_ms: int, status: Status) -> None:
    """1,000 rows: 10 s of task time are 10 ms a row, WARNING; 50 ms are too; more is CRITICAL."""
    operator = {"allUpdatesTimeMs": update_ms, "numRowsUpdated": 1_000}
    verdict = judge(state_update_latency.CHECK, window(report(batch, operator=operator) for batch in range(5)))
    assert (verdict.status, verdict.value) == (status, update_ms / 1_000_000)


def test_update_latency_of_a_handful_of_rows_is_not_judged() -> None:
    """Three rows in a batch of four tasks: 80 ms of fixed cost say nothing about a row."""
    operator = {"allUpdatesTimeMs": 240, "numRowsUpdated": 3}
    verdict = judge(state_update_latency.CHECK, window(report(batch, operator=operator) for batch in range(5)))
    assert verdict.status is Status.UNKNOWN
    assert "100 updated rows" in verdict.reason


@pytest.mark.parametrize(
    ("removal_ms", "status"),
    [(0, OK), (9_998, OK), (10_000, WARNING), (30_000, WARNING), (30_002, CRITICAL)],
)
def test_cleanup_time_is_wall_time_of_the_removals(removal_ms: int, status: Status) -> None:
    """Two at a time: 10 s of task time are 5 s, WARNING; 15 s are too; more is CRITICAL."""
    reports = [
        report(batch, durations={"addBatch": 60_000}, operator={"allRemovalsTimeMs": removal_ms}) for batch in range(5)
    ]
    verdict = judge(state_cleanup_time.CHECK, window(reports))
    assert (verdict.status, verdict.value) == (status, removal_ms / 2000)


@pytest.mark.parametrize(
    ("apart", "status"),
    [(0, OK), (2 * GB - 1, OK), (2 * GB, WARNING), (4 * GB, WARNING), (4 * GB + 1, CRITICAL)],
)
def test_memory_usage_leaves_state_memory_apart(apart: int, status: Status) -> None:
    """700 MB of state memory are resident too, and do not count."""
    state = 700_000_000
    reports = [report(batch, operator={"memoryUsedBytes": state}) for batch in range(5)]
    verdict = judge(memory_usage.CHECK, window(reports, measurements=resident([apart + state] * 5)))
    assert (verdict.status, verdict.value) == (status, apart)


def test_memory_usage_subtracts_only_the_low_point_of_a_saw_tooth() -> None:
    """RocksDB's memory swings between 1 and 3 GB: only 1 GB of the resident 3.5 is surely state."""
    swings = [GB, 3 * GB, 2 * GB, 3 * GB, 2 * GB]
    reports = [report(batch, operator={"memoryUsedBytes": size}) for batch, size in enumerate(swings)]
    verdict = judge(memory_usage.CHECK, window(reports, measurements=resident([3.5 * GB] * 5)))
    assert (verdict.status, verdict.value) == (WARNING, 2.5 * GB)


def test_memory_usage_counts_the_warm_standby_as_well() -> None:
    """1.5 GB alone is well; with 600 MB of a standby it is above 2 GB. A standby that ended does not count."""
    beside = (measured(STANDBY_BYTES, 600_000_000, NOW),)
    verdict = judge(memory_usage.CHECK, window(measurements=(*resident([1.5 * GB] * 5), *beside)))
    assert (verdict.status, verdict.value) == (WARNING, 2.1 * GB)
    assert verdict.evidence["standby_bytes"] == 600_000_000
    gone = (measured(STANDBY_BYTES, 600_000_000, NOW - 121),)
    assert judge(memory_usage.CHECK, window(measurements=(*gone, *resident([1.5 * GB] * 5)))).status is OK


def test_memory_usage_of_an_old_measurement_is_unknown() -> None:
    """The runner measures each ten seconds: a number two minutes old is of a driver that no longer measures."""
    exactly = window(measurements=resident([GB] * 5, until=NOW - 120))
    assert judge(memory_usage.CHECK, exactly).status is OK
    older = window(measurements=resident([GB] * 5, until=NOW - 120.5))
    assert judge(memory_usage.CHECK, older).status is Status.UNKNOWN
    dead = window(measurements=resident([GB] * 5), driver_alive=False)
    assert judge(memory_usage.CHECK, dead).status is Status.UNKNOWN


def _executors(*sizes: float, until: float = NOW, limit: float = 1000.0) -> tuple[Measurement, ...]:
    """Looks at one executor beside a small one, ten seconds apart, and at a driver that is well."""
    looks: list[Measurement] = []
    found = [SparkExecutor(id=name, host="h:1", active=True) for name in ("1", "2")]
    for index, size in enumerate(sizes):
        at = until - 10 * (len(sizes) - 1 - index)
        held = {"1": Memory(int(size), resident=True), "2": Memory(10, resident=True)}
        looks += measurements(found, held, stream=STREAM, limit=int(limit), at=at)
    return (*resident([GB] * 5), *looks)


def _on_cluster(*more: Measurement) -> Window:
    state = [report(batch, operator={"memoryUsedBytes": 900_000_000}) for batch in range(5)]
    return window(state, measurements=more, spec=spec(spark=SparkSpec(master="spark://m:7077")))


@pytest.mark.parametrize(
    ("size", "status"), [(0, OK), (849, OK), (850, WARNING), (950, WARNING), (951, CRITICAL), (1200, CRITICAL)]
)
def test_memory_usage_judges_the_fullest_executor_by_its_limit(size: int, status: Status) -> None:
    """85 % and 95 % of memory and overhead are WARNING, more is CRITICAL."""
    verdict = judge(memory_usage.CHECK, _on_cluster(*_executors(*[size] * 3)))
    assert verdict.status is status
    if status is not OK:
        assert verdict.value == size
        assert verdict.reason.startswith("executor 1 at h:1")


def test_memory_usage_on_a_cluster_is_the_worse_of_driver_and_executors() -> None:
    """State is in the executors: none of it is taken off the driver's own 5 GB."""
    full = (*resident([5 * GB] * 5), *_executors(900, 900, 900)[5:])
    verdict = judge(memory_usage.CHECK, _on_cluster(*full))
    assert (verdict.status, verdict.value) == (CRITICAL, 5 * GB)
    assert "executors" in verdict.evidence


def test_memory_usage_of_unmeasured_executors_is_unknown() -> None:
    for more in (resident([GB] * 5), _executors(10, 10, 10, until=NOW - 120.5)):
        verdict = judge(memory_usage.CHECK, _on_cluster(*more))
        assert verdict.status is Status.UNKNOWN
        assert "there is no recent measurement of the memory of the executors" in verdict.reason
    bad_driver = judge(memory_usage.CHECK, _on_cluster(*resident([5 * GB] * 5)))
    assert bad_driver.status is CRITICAL, "what is known to be bad is said all the same"


def test_memory_usage_of_one_full_sample_raises_no_alarm() -> None:
    verdict = judge(memory_usage.CHECK, _on_cluster(*_executors(999)))
    assert verdict.status is Status.UNKNOWN
    calmed = judge(memory_usage.CHECK, _on_cluster(*_executors(999, 999, 999, 10, 10)))
    assert calmed.status is CRITICAL, "held until five measurements in a row are below it"
    assert judge(memory_usage.CHECK, _on_cluster(*_executors(999, 999, 999, *[10] * 5))).status is OK


def test_sst_size_of_a_batch_without_flush_is_the_last_one_that_was_reported() -> None:
    """RocksDB says 0 in batches without a flush: 3 GB are still there."""
    sizes = [3 * GB, 0, 0, 0, 0, 0]
    reports = [
        report(batch, custom={"rocksdbSstFileSize": size}, operator={"memoryUsedBytes": 0})
        for batch, size in enumerate(sizes)
    ]
    verdict = judge(state_size.CHECK, window(reports))
    assert (verdict.status, verdict.value) == (WARNING, 3 * GB)


def test_state_restored_but_not_flushed_yet_is_measured_by_the_directory() -> None:
    """After a restart RocksDB reports 0 until its first flush; the 6 GB under state/ are real."""
    reports = [
        report(batch, custom={"rocksdbSstFileSize": 0}, operator={"memoryUsedBytes": 1_000}) for batch in range(5)
    ]
    blind = judge(state_size.CHECK, window(reports))
    seeing = judge(state_size.CHECK, window(reports, measurements=(measured("state_dir_bytes", 6e9, NOW - 5),)))
    assert (blind.status, seeing.status, seeing.value) == (OK, CRITICAL, 6e9)
    assert "has not flushed yet" in seeing.reason


def test_kept_versions_under_state_are_evidence_not_the_value() -> None:
    """Live state is 10 MB; the directory keeps a hundred versions, 2 GB, and alarms nobody."""
    measurements = (measured("state_dir_bytes", 2e9, NOW - 5),)
    reports = [
        report(batch, custom={"rocksdbSstFileSize": 9_000_000}, operator={"memoryUsedBytes": 1_000_000})
        for batch in range(5)
    ]
    verdict = judge(state_size.CHECK, window(reports, measurements=measurements))
    assert (verdict.status, verdict.value, verdict.evidence["state_dir_bytes"]) == (OK, 10_000_000, 2e9)


def test_state_of_all_operators_adds_up() -> None:
    """Three operators of 400 MB each are 1.2 GB."""
    reports = [
        report(batch, custom={"rocksdbSstFileSize": 400_000_000}, operator={"memoryUsedBytes": 0}, operators=3)
        for batch in range(5)
    ]
    assert judge(state_size.CHECK, window(reports)).value == 1_200_000_000


def test_a_query_without_state_is_well_not_unknown() -> None:
    """The reports are there and show no stateful operator: that is data."""
    reports = [report(batch, operators=0) for batch in range(5)]
    for check in (state_size.CHECK, state_cleanup_time.CHECK, state_update_latency.CHECK):
        assert judge(check, window(reports)).status is OK


def test_times_are_exact_where_binary_fractions_are_not() -> None:
    """35 ms a row against an override of `35 ms`: equal, so WARNING and not CRITICAL."""
    from streamwarden.health.thresholds import validate_overrides
    from streamwarden.stream.spec import HealthSpec

    for number in range(1, 200):
        overrides = validate_overrides(
            {"state_update_latency": {"warning": f"{number} ms", "critical": f"{number} ms"}}, where="a.yaml"
        )
        operator = {"allUpdatesTimeMs": number * 100, "numRowsUpdated": 100}
        mine = window(
            (report(batch, operator=operator) for batch in range(3)),
            spec=spec(health=HealthSpec(thresholds=overrides)),
        )
        assert judge(state_update_latency.CHECK, mine).status is WARNING, number
