"""Snapshot lag: versions of the state since the last uploaded snapshot, against what the settings allow."""

import math
import statistics
from itertools import pairwise

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING, RESTART_LOOP
from streamwarden.health.signals.series import current_batches, reports
from streamwarden.health.signals.snapshots import reported_snapshots
from streamwarden.health.signals.stopped import ended_well, is_down
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE, number, seconds
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.stream.spec import Backend
from streamwarden.units import format_count, format_duration

_SHOWN = 5
"""Partitions in the evidence, the worst first."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The worst partition's versions without a snapshot, as a multiple of the versions between two uploads."""
    state, conf = window.spec.state, spark_conf(window.spec)
    progress = reports(window, 1)
    if progress and not progress[-1].operators:
        return CHECK.not_applicable(window, "the query keeps no state, so it uploads no snapshot", 0.0)
    if state.backend is Backend.ROCKSDB and not state.changelog:
        return CHECK.not_applicable(window, "every commit uploads a snapshot", 0.0)
    if is_down(window) and window.drivers and ended_well(window.drivers[-1]):
        return CHECK.verdict(window, Status.OK, "not running: no snapshot is due", 0.0)
    lags, pace = _lags(window), _pace(window)
    if not lags or pace is None:
        reason = "nothing shows which snapshots were uploaded, or fewer than two batches show how fast the state grows"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    maintenance, deltas = seconds(conf, MAINTENANCE), number(conf, DELTAS)
    usual = deltas + math.ceil(maintenance / pace) + 1
    worst = sorted(lags, key=lambda place: lags[place], reverse=True)[:_SHOWN]
    value, limits_in_force = round(lags[worst[0]] / usual, 6), thresholds.of(CHECK.name)
    reason = (
        f"{worst[0]} has {format_count(lags[worst[0]], 'version')} without an uploaded snapshot: "
        f"{CHECK.shown(value, limits_in_force)} times the {usual:,.0f} that two uploads are apart, with a snapshot "
        f"due every {deltas:,.0f} versions, an upload every {format_duration(maintenance)} and a batch every "
        f"{format_duration(pace)} ({CHECK.limits_text(limits_in_force)})"
    )
    evidence: dict[str, object] = {f"{place} versions": lags[place] for place in worst}
    return CHECK.verdict(
        window, CHECK.grade(value, limits_in_force), reason, value, {**evidence, "usual_versions": usual}
    )


def _lags(window: Window) -> dict[str, int]:
    """Partition -> versions since its newest uploaded snapshot: by the checkpoint, or else by the reports."""
    if not window.state:
        newest = window.batches[-1].batch_id + 1 if window.batches else 0
        return {place: max(0, newest - snapshot) for place, snapshot in reported_snapshots(window).items()}
    lags: dict[str, int] = {}
    for store in window.state:  # a join has several in each partition
        place = f"partition {store.partition} of operator {store.operator}"
        lags[place] = max(lags.get(place, 0), (store.version or 0) - (store.snapshot or 0))
    return lags


def _pace(window: Window) -> float | None:
    """Seconds from one batch to the next, by the median; None with fewer than two."""
    began = [batch.planned_at or (batch.progress.at if batch.progress else 0.0) for batch in current_batches(window)]
    steps = [later - earlier for earlier, later in pairwise(at for at in began if at) if later > earlier]
    return max(statistics.median(steps), 0.001) if steps else None


CHECK = Check(
    name="snapshot_lag",
    title="Snapshot lag",
    unit=ValueUnit.TIMES,
    target="< 3 times the versions that two uploads are apart",
    thresholds=limits(3.0, 10.0, ValueUnit.TIMES, "versions since the last uploaded snapshot / versions between two"),
    judge=check,
    probes=frozenset({Probed.STATE}),
    consequence_of=(*NOT_RUNNING, RESTART_LOOP),
    reads=(
        "The names of the files under `state/`: for each operator and partition the newest version less that of the "
        "newest uploaded snapshot. The worst one counts. If the state cannot be listed, `customMetrics."
        "SnapshotLastUploaded.*` of the reports counts. It is divided by the versions that two uploads are apart at "
        "most: `minDeltasForSnapshot` + the batches in a `maintenanceInterval` + 1, by the median time between two "
        "batches. Both settings are those that the driver is started with: 5 versions and 2 s unless `spark.conf` of "
        "the stream's file says otherwise. How long a "
        "restart would replay is another question: see `replay_debt`. RocksDB without changelog uploads a snapshot "
        "with every commit."
    ),
    unknown="Nothing shows which snapshots were uploaded, or fewer than two batches were committed.",
    advice=(
        "The maintenance of the state store does not do what its settings say. Read the driver's and the executors' "
        "log for errors of the maintenance thread: uploads that fail, a slow or full storage. If there are none, "
        "shorten `spark.sql.streaming.stateStore.maintenanceInterval`. Until a snapshot is uploaded, Spark keeps all "
        "changes since the last one."
    ),
    source="Design of Streamwarden: one upload may fail without an alarm.",
)
