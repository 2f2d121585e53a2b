"""What a setting costs, from recorded figures, by the formula of its topic."""

from __future__ import annotations

import pytest

from streamwarden.health.checks import CHECKS
from streamwarden.stream.spec import Backend, TriggerSpec
from streamwarden.tuning import checkpoint_interval, memory, partitions, trigger
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.rates import Cost
from support.streams.health_windows import spec
from support.streams.tuning import batch, files, history

MIB = 2**20


def cost(fixed: float, per_row: float) -> Cost:
    return Cost(fixed=fixed, per_row=per_row, source="")


def test_every_topic_names_the_check_that_it_cures() -> None:
    assert {each.cures for each in advise(history())} <= {check.name for check in CHECKS}


@pytest.mark.parametrize(
    ("fixed", "per_row", "period", "advised", "percent"),
    [
        (1.0, 0.0, 1.0, 2.0, 50.0),
        (1.0, 0.0, 2.0, 2.0, 0.0),
        (1.0, 0.01, 1.0, 2.0, 25.0),  # 100 rows a second: 1 s of a batch is their own
        (0.0, 0.01, 1.0, 2.0, None),
    ],
)
def test_a_short_trigger_costs_the_fixed_time_that_fewer_batches_would_share(
    fixed: float, per_row: float, period: float, advised: float, percent: float | None
) -> None:
    assert trigger.costs(cost(fixed, per_row), 100.0, period, advised) == (
        None if percent is None else pytest.approx(percent)
    )


@pytest.mark.parametrize(
    ("now", "wanted", "percent"), [(200, 2, 79.2), (8, 2, 60.0), (1, 2, 10.0), (2, 2, None), (4, 8, None)]
)
def test_partitions_cost_fixed_time_or_idle_cores(now: int, wanted: int, percent: float | None) -> None:
    """A batch of a second, 0.8 s of it fixed, on two cores."""
    found = partitions.costs(cost(0.8, 0.001), 1.0, now, wanted, 2)
    assert found == (None if percent is None else pytest.approx(percent))


def test_what_a_batch_of_one_size_costs_beside_its_rows_is_not_known() -> None:
    assert partitions.costs(cost(0.0, 0.001), 1.0, 200, 2, 2) is None
    assert partitions.costs(None, 1.0, 200, 2, 2) is None


def test_rare_snapshots_cost_a_part_of_the_restart() -> None:
    """10 s beside the replay; 100 batches of 0.1 s are replayed in place of 10."""
    assert checkpoint_interval.costs(100, 10, 0.1, 10.0) == pytest.approx(100 * (1 - 11 / 20))
    assert checkpoint_interval.costs(10, 10, 0.1, 10.0) == pytest.approx(0)


@pytest.mark.parametrize(("given", "percent"), [(8000, 86.7), (2100, None), (1064, None)])
def test_memory_that_a_cluster_reserves_costs_if_half_of_it_is_never_used(given: int, percent: float | None) -> None:
    """A heap of 680 MiB, with 384 MiB beside it."""
    found = memory.costs(given * MIB, 680 * MIB, Backend.HDFS)
    assert found == (None if percent is None else pytest.approx(percent, abs=0.05))


def test_the_smallest_heap_leaves_room_for_the_state_on_it() -> None:
    assert memory.smaller(100 * MIB, 0, Backend.HDFS) == 512 * MIB
    assert memory.smaller(100 * MIB, 500 * MIB, Backend.HDFS) == 2000 * MIB
    assert memory.smaller(2000 * MIB, 500 * MIB, Backend.ROCKSDB) == (2500 - 384 - 512) * MIB


def test_a_batch_that_is_mostly_fixed_time_makes_its_trigger_and_its_partitions_costly() -> None:
    """1 s and 0.1 ms a row, every second, in 200 partitions on two cores."""
    reports = [
        batch(number, rows=rows, seconds=1 + rows / 10_000, numShufflePartitions=200)
        for number, rows in enumerate([1000, 2000, 3000, 4000] * 8)
    ]
    found = {each.topic: each for each in advise(history(reports, spec(trigger=TriggerSpec(processing_time=1.0))))}
    assert found["trigger"].costs is not None
    assert found["trigger"].costs > 20
    assert found["partitions"].costs is not None
    assert found["partitions"].costs > 70
    kept = history(reports, spec(trigger=TriggerSpec(processing_time=60.0)), files=files())
    assert {each.topic: each.costs for each in advise(kept)}["trigger"] is None
