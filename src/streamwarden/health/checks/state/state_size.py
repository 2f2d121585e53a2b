"""State size: live bytes of all stateful operators."""

from collections.abc import Sequence

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.signals.hysteresis import MEMORY, judge_series
from streamwarden.health.signals.series import STATE_REPORTS, latest_measured, live_state, reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.progress import Progress
from streamwarden.units import GB, format_size


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Live bytes of all operators, compared with the documented limits."""
    progress = reports(window, STATE_REPORTS)
    if not progress:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report shows how large the state is")
    if not progress[-1].operators:
        return CHECK.not_applicable(window, "the query keeps no state", 0.0)
    sizes = live_state(window)
    directory = latest_measured(window, "state_dir_bytes")
    evidence: dict[str, object] = {"operators": len(progress[-1].operators)}
    what = "live state is"
    if directory is not None:
        evidence["state_dir_bytes"] = directory.value
        if _never_flushed(progress):
            # RocksDB reports 0 until its first flush in this run; the restored SST files are in the directory
            sizes = [(batch, max(size, int(directory.value))) for batch, size in sizes]
            what = "state (RocksDB has not flushed yet, so these are all bytes under state/) is"
        else:
            what = f"live state (with kept versions {format_size(directory.value)} under state/) is"
    return judge_series(CHECK, window, thresholds, sizes[-MEMORY:], what=what, evidence=evidence, lasting=True)


def _never_flushed(found: Sequence[Progress]) -> bool:
    kinds = [operator.custom.get("rocksdbSstFileSize") for progress in found for operator in progress.operators]
    return any(size == 0 for size in kinds) and not any(kinds)


CHECK = Check(
    name="state_size",
    title="State size",
    unit=ValueUnit.BYTES,
    target="< 1 GB (10^9 bytes)",
    thresholds=limits(1 * GB, 5 * GB, ValueUnit.BYTES, "live state bytes"),
    judge=check,
    reads=(
        "`stateOperators[]` of the progress reports, summed over operators. HDFS-backed provider: "
        "`customMetrics.stateOnCurrentVersionSizeBytes`. RocksDB: `customMetrics.rocksdbSstFileSize` plus "
        "`memoryUsedBytes` (memtables, and the block cache, so an upper bound); the SST size is 0 in batches without a "
        "flush, and then the last other value counts. It is compared with the measurement `state_dir_bytes`, the bytes "
        "under the checkpoint's `state/`, which also hold older versions: it is in the evidence, and it is the value "
        "while RocksDB has not flushed yet. These are gauges, not sums over time, so they are not divided."
    ),
    unknown="There is no progress report.",
    advice=(
        "Tighten the watermark so that state expires sooner, and clean state up (timeouts, TTL). Look for keys that "
        "never end: `streamwarden inspect` shows bytes by operator and partition."
    ),
    source="Documented target < 1 GB, warning 1-5 GB, critical > 5 GB; GB is 10^9 bytes.",
    essential=True,
)
