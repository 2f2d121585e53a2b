"""Replay debt: the state changes that a restart must replay, as the time that they add to its start."""

import statistics
from collections.abc import Sequence

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING, RESTART_LOOP
from streamwarden.health.signals.hysteresis import MEMORY
from streamwarden.health.signals.series import current_batches, latest_measured, live_state, reports
from streamwarden.health.signals.snapshots import reported_snapshots
from streamwarden.health.signals.stopped import ended_well, is_down
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Batch, Probed, Window
from streamwarden.lifecycle.recovery import SnapshotFacts, state_load
from streamwarden.progress import Progress
from streamwarden.stream.spec import Backend
from streamwarden.units import format_count


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The time that a crash now would cost beyond a start without state."""
    if is_down(window) and window.drivers and ended_well(window.drivers[-1]):
        return CHECK.verdict(window, Status.OK, "not running: no crash is to be recovered from", 0.0)
    limits_in_force = thresholds.of(CHECK.name)
    progress = reports(window, 2 * MEMORY)
    if not progress:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report says how many rows of state changed")
    if not progress[-1].operators:
        return CHECK.not_applicable(window, "the query keeps no state, so a restart replays none", 0.0)
    known, version = _snapshot_version(window)
    if not known:
        return CHECK.verdict(
            window, Status.UNKNOWN, "neither the checkpoint nor the reports show which snapshot was uploaded last"
        )
    rows, batches, guessed = _rows_since(current_batches(window), progress, version or 0)
    size = live_state(window)[-1][1] if version is not None else 0
    snapshot = SnapshotFacts(backend=window.spec.state.backend, version=version, size=size)
    terms, _ = state_load(snapshot, [rows])
    value = round(sum(term.seconds for term in terms), 6)
    since = "since the last uploaded snapshot" if version is not None else "and no snapshot was ever uploaded"
    reason = (
        f"a restart would spend {CHECK.shown(value, limits_in_force)} on its state: "
        f"{format_count(rows, 'row')} of state changed in {format_count(batches, 'batch')} {since} "
        f"({CHECK.limits_text(limits_in_force)})"
    )
    evidence: dict[str, object] = {
        "snapshot_version": version,
        "rows_changed": rows,
        "batches": batches,
        "batches_estimated": guessed,
        "terms": {term.name: term.seconds for term in terms},
    }
    directory = latest_measured(window, "state_dir_bytes")
    if directory is not None:
        evidence["state_dir_bytes"] = directory.value
    return CHECK.verdict(window, CHECK.grade(value, limits_in_force), reason, value, evidence)


def _snapshot_version(window: Window) -> tuple[bool, int | None]:
    """(is it known, oldest of the instances' newest uploaded snapshots; None: at least one instance has none)."""
    state = window.spec.state
    if state.backend is Backend.ROCKSDB and not state.changelog:
        return True, window.batches[-1].batch_id + 1  # every commit uploads a snapshot
    if window.state:
        versions = [store.snapshot for store in window.state]
        uploaded = [version for version in versions if version is not None]
        return True, min(uploaded) if len(uploaded) == len(versions) else None
    newest = reported_snapshots(window)
    return bool(newest), min(newest.values(), default=None)


def _rows_since(batches: Sequence[Batch], found: Sequence[Progress], version: int) -> tuple[int, int, int]:
    """(rows updated or removed, batches, how many of these were estimated) in batches >= `version`.

    State version v holds the batches below v. A batch whose report is lost or older than the window counts as the mean
    one.
    """
    last = found[-1].batch_id
    if batches[-1].committed_at is not None:
        last = max(last, batches[-1].batch_id)
    total = max(0, last + 1 - version)
    reported = []
    for batch in reversed(batches):
        if batch.batch_id < version:
            break
        if batch.progress is not None and batch.progress.has_run:
            reported.append(batch.progress.rows_changed)
    lost = max(0, total - len(reported))
    mean = statistics.fmean(reported or [report.rows_changed for report in found]) if lost else 0.0
    return round(sum(reported) + mean * lost), total, lost


CHECK = Check(
    name="replay_debt",
    title="Replay debt",
    unit=ValueUnit.SECONDS,
    target="a restart spends < 1 minute on its state",
    thresholds=limits(60.0, 300.0, ValueUnit.SECONDS, "predicted time for loading the state"),
    judge=check,
    probes=frozenset({Probed.STATE}),
    consequence_of=(*NOT_RUNNING, RESTART_LOOP),
    raise_after=3,
    reads=(
        "`stateOperators[].numRowsUpdated` + `numRowsRemoved`, summed over operators, of the batches since the "
        "oldest of the newest uploaded snapshots of all state store instances. The snapshots come from the "
        "checkpoint's `state/`, otherwise from `customMetrics.SnapshotLastUploaded.*` (-1 gives no answer, because a "
        "driver that has uploaded none since its start reports it too). A batch without a report counts as an "
        "average one. Predicted = snapshot bytes / 100 MB/s + rows x 24 us (RocksDB) or 2.4 us (HDFS-backed). What "
        "every start costs (start-up, the repeated batch) is no debt and does not count. The cost of a row was "
        "measured over the total of rows with all tasks running, so it is not divided again. A stream that was "
        "stopped, or has read all its input, is OK. RocksDB without changelog uploads a snapshot with every commit: "
        "its debt is zero."
    ),
    unknown="There is no progress report, or nothing shows which snapshot was uploaded last.",
    advice=(
        "Upload snapshots more often: a shorter `spark.sql.streaming.stateStore.maintenanceInterval` and a smaller "
        "`minDeltasForSnapshot`. A driver that ends before its first maintenance never uploads one."
    ),
    source="Measured: state recovery is linear in the rows changed since the last uploaded snapshot, 5-24 us a row.",
)
