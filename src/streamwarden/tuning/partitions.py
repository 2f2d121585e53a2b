"""How many partitions the state should have: one for each core, more only where one of them is too large to copy."""

import math
from typing import Final

from streamwarden.health.signals.series import cores
from streamwarden.tuning.history import History
from streamwarden.tuning.rates import Cost, cost_of_batches
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import MB, format_size

TOPIC: Final = "partitions"
CURES: Final = "checkpoint_duration"
LARGEST: Final = 500 * MB
"""Bytes of a partition from which its copy takes 5 s at 100 MB/s, alone, before the first batch."""

SPARE: Final = 4
"""Times the number of cores up to which more partitions cost little. Measured: 2 to 8 on two cores alike; 200, Spark's
default, make a small batch and a restart 2 to 10 times longer."""


def costs(cost: Cost | None, batch: float | None, now: int, wanted: int, at_once: int) -> float | None:
    """Percent of a batch that the number of partitions costs; None if it is not known, or no time.

    Too many: the fixed time of a batch is mostly that of its tasks, one for each partition and operator, so that
    `wanted` of `now` partitions take wanted / now of it: fixed x (1 - wanted / now) / batch. This is an upper bound, as
    a part of the fixed time is the driver's own (200 partitions take 2 to 10 times as long as 4, not 50 times).
    Too few: cores that have no partition do nothing while rows are processed: (1 - fixed / batch) x (1 - now / cores).
    The fixed time is that of the line through the recorded batches, `batch` the median of their durations, in seconds.
    """
    if cost is None or not batch or cost.fixed <= 0:
        return None
    fixed = min(1.0, cost.fixed / batch)
    if now > wanted:
        return 100 * fixed * (1 - wanted / now)
    return 100 * (1 - fixed) * (1 - now / at_once) if now < at_once else None


def advise(history: History) -> Recommendation:
    """Recommend a number from bytes, cores and skew. An existing checkpoint changes its number offline only."""
    reports = [report for report in history.reports() if report.operators]
    if not reports:
        return unknown(TOPIC, "too little history: no batch with state was reported")
    # in real-time mode the cores are slots, which the topic's partitions take as well: only the size is judged
    files, core_count = history.files, None if history.spec.trigger.real_time is not None else cores(history.spec)
    if files is None or not files.by_partition:
        return unknown(TOPIC, "the checkpoint could not be read, or holds no state yet")
    now = reports[-1].operators[0].partitions or len(files.by_partition)
    at_once = core_count or history.spec.state.shuffle_partitions
    by_size = math.ceil(files.bytes / LARGEST)
    wanted = at_once * max(1, math.ceil(by_size / at_once))
    largest, mean = max(files.by_partition.values()), files.bytes / len(files.by_partition)
    skew = largest / mean if mean else 1.0
    numbers = (
        Number("partitions now", now, "", "`numShufflePartitions` of the newest report"),
        Number(
            "cores", at_once, "", "`spark.master`, or the executors' settings" if core_count else "not known: as many"
        ),
        Number("state", files.bytes, "bytes", "under `state/`, all kept versions"),
        Number("largest partition", largest, "bytes", "under `state/`"),
        Number("skew", skew, "", "largest partition / mean"),
        Number("partitions by size", by_size, "", f"at most {format_size(LARGEST)} each: 5 s to copy at 100 MB/s"),
    )
    uneven = (
        f" One partition has {skew:.1f} times the mean: more of them do not help, another key does." if skew > 2 else ""
    )
    if wanted <= now <= max(SPARE * at_once, wanted):
        says = f"{now} partitions on {at_once} cores for {format_size(files.bytes)}: leave them.{uneven}"
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=numbers)
    what = (
        "each batch and each restart pays for all of them"
        if now > wanted
        else "some cores have nothing to do, or too much"
    )
    says = (
        f"{now} partitions on {at_once} cores: {what}. Take {wanted}. A checkpoint keeps the count it was begun with, "
        f"until `streamwarden repartition --partitions {wanted}` changes it while the stream is stopped.{uneven}"
    )
    settings = {"state.shuffle_partitions": str(wanted)}
    return Recommendation(
        topic=TOPIC,
        status=Decision.CHANGE,
        says=says,
        numbers=numbers,
        settings=settings,
        costs=costs(cost_of_batches(history.with_rows()), history.batch_seconds(), now, wanted, at_once),
    )
