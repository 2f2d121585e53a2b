"""Replay debt: the state changes that a restart must replay, as the recovery time that they predict."""

import statistics
from collections.abc import Sequence

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING, RESTART_LOOP
from streamwarden.health.signals.hysteresis import MEMORY
from streamwarden.health.signals.series import (
    batch_seconds,
    current_batches,
    latest_measured,
    live_state,
    reports,
)
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Batch, Window
from streamwarden.lifecycle.driver import startup_seconds
from streamwarden.lifecycle.recovery import SnapshotFacts, predict_restart
from streamwarden.progress import Progress
from streamwarden.stream.spec import Backend
from streamwarden.units import format_count

_METRIC = "SnapshotLastUploaded."


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The recovery time that a crash now would cost."""
    limits_in_force = thresholds.of(CHECK.name)
    progress = reports(window, 2 * MEMORY)
    if not progress:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report says how many rows of state changed")
    if not progress[-1].operators:
        return CHECK.verdict(window, Status.OK, "the query keeps no state, so a restart replays none", 0.0)
    known, version = _snapshot_version(window)
    if not known:
        return CHECK.verdict(
            window, Status.UNKNOWN, "neither the checkpoint nor the reports show which snapshot was uploaded last"
        )
    rows, batches, guessed = _rows_since(current_batches(window), progress, version or 0)
    size = live_state(window)[-1][1] if version is not None else 0
    prediction = predict_restart(
        startup=_startup(window) or limits_in_force["start_up"],
        snapshot=SnapshotFacts(backend=window.spec.state.backend, version=version, size=size),
        rows_changed=[rows],
        redone_batch=_redone(window),
    )
    value = round(sum(term.seconds for term in prediction.terms), 6)
    since = "since the last uploaded snapshot" if version is not None else "and no snapshot was ever uploaded"
    reason = (
        f"a restart would take {CHECK.shown(value, limits_in_force)}: {format_count(rows, 'row')} of state changed in "
        f"{format_count(batches, 'batch')} {since} "
        f"({CHECK.limits_text(limits_in_force)})"
    )
    evidence: dict[str, object] = {
        "snapshot_version": version,
        "rows_changed": rows,
        "batches": batches,
        "batches_estimated": guessed,
        "terms": {term.name: term.seconds for term in prediction.terms},
    }
    directory = latest_measured(window, "state_dir_bytes")
    if directory is not None:
        evidence["state_dir_bytes"] = directory.value
    return CHECK.verdict(window, CHECK.grade(value, limits_in_force), reason, value, evidence)


def _redone(window: Window) -> float:
    """Seconds of the batch that runs again; 0 in real-time mode, where rows are written before a batch ends."""
    if window.spec.trigger.real_time is not None:
        return 0.0
    return statistics.median(batch_seconds(current_batches(window)[-20:]) or [0.0])


def _snapshot_version(window: Window) -> tuple[bool, int | None]:
    """(is it known, oldest of the instances' newest uploaded snapshots; None: at least one instance has none)."""
    state = window.spec.state
    if state.backend is Backend.ROCKSDB and not state.changelog:
        return True, window.batches[-1].batch_id + 1  # every commit uploads a snapshot
    if window.state:
        versions = [store.snapshot for store in window.state]
        uploaded = [version for version in versions if version is not None]
        return True, min(uploaded) if len(uploaded) == len(versions) else None
    newest: dict[tuple[int, str], int] = {}
    for report in reports(window, len(window.batches)):
        for operator in report.operators:
            for key, value in operator.custom.items():
                if key.startswith(_METRIC):
                    at = (operator.index, key)
                    newest[at] = max(newest.get(at, -1), value)
    if not newest or min(newest.values()) < 0:
        # a driver that has not uploaded a snapshot since its start also reports -1
        return False, None
    return True, min(newest.values())


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


def _startup(window: Window) -> float | None:
    """Median seconds from launch to a running query in the drivers of the last day."""
    seconds = startup_seconds(window.drivers)
    return statistics.median(seconds) if seconds else None


CHECK = Check(
    name="replay_debt",
    title="Replay debt",
    unit=ValueUnit.SECONDS,
    target="a restart takes < 1 minute",
    thresholds=(
        *limits(60.0, 300.0, ValueUnit.SECONDS, "predicted recovery time"),
        Threshold("start_up", 15.0, ValueUnit.SECONDS, "start-up time if no driver of the last day shows it"),
    ),
    judge=check,
    consequence_of=(*NOT_RUNNING, RESTART_LOOP),
    raise_after=3,
    reads=(
        "`stateOperators[].numRowsUpdated` + `numRowsRemoved`, summed over operators, of the batches since the "
        "oldest of the newest uploaded snapshots of all state store instances. The snapshots come from the "
        "checkpoint's `state/`, otherwise from `customMetrics.SnapshotLastUploaded.*` (-1 gives no answer, because a "
        "driver that has uploaded none since its start reports it too). A batch without a report counts as an "
        "average one. Predicted recovery = start-up (median of the last day's drivers) + snapshot bytes / 100 MB/s + "
        "rows x 24 us (RocksDB) or 2.4 us (HDFS-backed) + a repeated batch (median; none in real-time mode, where "
        "rows are written before a batch ends). The cost of a row was measured over the total of rows with all tasks "
        "running, so it is not divided again. RocksDB without changelog uploads a snapshot with every commit: its "
        "debt is zero."
    ),
    unknown="There is no progress report, or nothing shows which snapshot was uploaded last.",
    advice=(
        "Upload snapshots more often: a shorter `spark.sql.streaming.stateStore.maintenanceInterval` and a smaller "
        "`minDeltasForSnapshot`. A driver that ends before its first maintenance never uploads one."
    ),
    source="Measured: state recovery is linear in the rows changed since the last uploaded snapshot, 5-24 us a row.",
)
