"""How often a checkpoint, and a snapshot of the state, is worth its cost.

The field's formula: I = T_checkpoint_cost / (T_batch x F_tolerance) micro-batches, with F_tolerance = the longest
recovery that is accepted / T_batch. Written out it is I = T_checkpoint_cost / accepted recovery: below one as long as a
checkpoint takes less than that, and then every batch should be committed, which Spark does anyway.

What Spark lets one choose is how many batches pass between two snapshots. A restart replays the rows changed since the
last uploaded one, so the accepted recovery bounds their number from above: what start-up, snapshot copy and the redone
batch leave of it, divided by what a batch's changes cost to replay (`lifecycle.recovery`).
"""

import math
import statistics
from typing import Final

from streamwarden.checkpoint.diagnosis.loading import MOST_REPLAYED
from streamwarden.health.signals.series import checkpoint_seconds
from streamwarden.lifecycle.recovery import COPY_RATE, ROW_COST
from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE, number, seconds
from streamwarden.stream.spec import Backend
from streamwarden.tuning.history import History
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.tuning.restarts import measured_startup
from streamwarden.units import format_duration

TOPIC: Final = "checkpoint interval"
CURES: Final = "replay_debt"


def interval(checkpoint_cost: float, batch: float, accepted_recovery: float) -> float:
    """The field's formula, in micro-batches; seconds in. Raises ValueError if the batch or the recovery time is 0."""
    if batch <= 0 or accepted_recovery <= 0:
        raise ValueError("T_batch and the accepted recovery must be longer than no time")
    tolerance = accepted_recovery / batch
    return checkpoint_cost / (batch * tolerance)


def most_batches(rows_a_batch: float, cost_a_row: float, left: float) -> float:
    """Batches whose changes can be replayed in `left` seconds; infinite if batches change nothing."""
    cost = rows_a_batch * cost_a_row
    return max(0.0, left) / cost if cost > 0 else math.inf


def costs(replayed: float, advised: float, row: float, rest: float) -> float | None:
    """Percent of a restart after a crash that fewer batches between two snapshots would save; None if it is no time.

    A restart takes R(n) = rest + n x row: start-up, snapshot copy and the redone batch, then the replay of n batches,
    each with `row` seconds for the rows that it changes. The cost is 1 - R(advised) / R(replayed).
    """
    now, then = rest + replayed * row, rest + advised * row
    return 100 * (1 - then / now) if now > 0 else None


def advise(history: History) -> Recommendation:
    """Compute both numbers, and their meaning for the snapshot settings."""
    reports = history.with_rows()
    batch = history.batch_seconds()
    too_few = history.too_few(reports)
    if too_few or not batch:
        return unknown(TOPIC, too_few or "no batch took any time")
    cost = statistics.median(checkpoint_seconds(history.spec, reports))
    accepted, whence = history.acceptable_recovery
    every = interval(cost, batch, accepted)
    numbers = [
        Number(
            "T_checkpoint_cost", cost, "seconds", f"median of {len(reports)} batches: both logs and the state commit"
        ),
        Number("T_batch", batch, "seconds", f"median of {len(history.batches)} batches"),
        Number("accepted recovery", accepted, "seconds", whence),
        Number("F_tolerance", accepted / batch, "", "accepted recovery / T_batch"),
        Number("I", every, "batches", "T_checkpoint_cost / (T_batch x F_tolerance)"),
    ]
    says = f"I = {every:.2g}: " + (
        "commit every batch, as Spark does."
        if every <= 1
        else f"a checkpoint costs more than the accepted recovery: share it among {math.ceil(every)} times the rows "
        "with a longer trigger."
    )
    if not reports[-1].operators:
        return Recommendation(
            topic=TOPIC, status=Decision.KEEP, says=f"{says} The query keeps no state.", numbers=tuple(numbers)
        )
    return _snapshots(history, says, numbers, batch)


def _snapshots(history: History, says: str, numbers: list[Number], batch: float) -> Recommendation:
    spec = history.spec
    if spec.state.backend is Backend.ROCKSDB and not spec.state.changelog:
        says += " Without changelogs each commit is a snapshot: a restart replays none."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=tuple(numbers))
    rows = statistics.fmean(report.rows_changed for report in history.with_rows())
    backend = spec.state.backend if isinstance(spec.state.backend, Backend) else Backend.ROCKSDB
    startup, started = measured_startup(history)
    copy = (history.files.bytes if history.files else 0) / COPY_RATE
    left = history.acceptable_recovery[0] - startup - copy - batch
    most = most_batches(rows, ROW_COST[backend], left)
    deltas = int(number(history.conf, DELTAS))
    period = _period(history, batch)
    delay = math.ceil(seconds(history.conf, MAINTENANCE) / period)
    numbers += [
        Number("rows changed a batch", rows, "rows", "mean of `numRowsUpdated` + `numRowsRemoved`"),
        Number("cost of a changed row", ROW_COST[backend], "seconds", f"measured for {backend}, lifecycle.recovery"),
        Number("start-up", startup, "seconds", started),
        Number("snapshot copy", copy, "seconds", f"at most: bytes under `state/` at {COPY_RATE / 1e6:.0f} MB/s"),
        Number("left for the replay", left, "seconds", "accepted recovery - start-up - snapshot copy - T_batch"),
        Number("snapshots at most", most, "batches", "left for the replay / cost of a batch's changes"),
        Number("snapshots now", deltas + delay, "batches", "minDeltasForSnapshot + maintenanceInterval in batches"),
    ]
    if left <= 0:
        says += (
            f" No snapshot interval meets a recovery of {format_duration(history.acceptable_recovery[0])}: start-up, "
            "copy and one batch take longer. Start drivers faster (`streamwarden prepare`), or accept more."
        )
        return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=tuple(numbers))
    if deltas + delay <= most and deltas <= MOST_REPLAYED:
        says += f" A snapshot after {deltas} batches keeps the replay within the accepted recovery: leave it."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=tuple(numbers))
    wanted = max(1, min(MOST_REPLAYED, math.floor(most) - delay))
    says += f" Make a snapshot after {wanted} batches instead of {deltas}."
    settings = {DELTAS: str(wanted)}
    if wanted + delay > most:
        settings[MAINTENANCE] = f"{max(1, math.floor(period * max(1.0, most / 2)))}s"
        says += " It is uploaded too late as well: shorten the maintenance interval."
    return Recommendation(
        topic=TOPIC,
        status=Decision.CHANGE,
        says=says,
        numbers=tuple(numbers),
        settings=settings,
        costs=costs(deltas + delay, wanted + delay, rows * ROW_COST[backend], startup + copy + batch),
    )


def _period(history: History, batch: float) -> float:
    """Seconds from one batch to the next: at least the duration of a batch, and the trigger."""
    return max(batch, history.spec.trigger.interval or 0.0, 0.001)
