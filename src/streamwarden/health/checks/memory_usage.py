"""Memory usage: resident memory of driver and executors, state memory apart."""

from __future__ import annotations

from streamwarden.health.check import Check, Thresholds, Unit, limits
from streamwarden.health.series import latest_measured, measured, reports
from streamwarden.health.settle import MEMORY, RECENT, judge_series
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import GB, format_size


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Resident bytes without state memory against the documented limits."""
    newest = latest_measured(window, "resident_bytes")
    if newest is None or window.driver_alive is False:
        return CHECK.verdict(window, Status.UNKNOWN, _why_not(window))
    # RocksDB's memoryUsedBytes saw-tooths with its memtables: only its low point is surely state
    memory = [sum(op.memory_used_bytes for op in each.operators) for each in reports(window, RECENT)]
    state = min(memory, default=0)
    observations = [(each.at, max(0.0, each.value - state)) for each in measured(window, "resident_bytes", MEMORY)]
    what = f"resident memory without state ({format_size(state)})"
    evidence: dict[str, object] = {"resident_bytes": newest.value, "state_memory_bytes": state, "source": newest.source}
    return judge_series(CHECK, window, thresholds, observations, what=what, where="at", evidence=evidence)


def _why_not(window: Window) -> str:
    if window.driver_alive is False:
        return "the driver is not running: it has no memory to judge"
    old = measured(window, "resident_bytes", 1)
    if old:
        return f"the newest measurement of resident memory is {window.now - old[-1].at:.0f} s old"
    return "nobody measured the resident memory of the driver"


CHECK = Check(
    name="memory_usage",
    title="Memory usage",
    unit=Unit.BYTES,
    target="< 2 GB (10^9 bytes)",
    thresholds=limits(2 * GB, 4 * GB, Unit.BYTES, "resident bytes without state memory"),
    judge=check,
    reads=(
        "The measurement `resident_bytes` (resident memory of the driver's process tree: JVM, Python, workers, taken "
        "by "
        "the runner about every ten seconds) minus state memory: `stateOperators[].memoryUsedBytes` summed over "
        "operators, the smallest sum of the five newest reports, because RocksDB's saw-tooths with its memtables. "
        "Executors on "
        "other hosts are not in it."
    ),
    unknown="No measurement of the last two minutes is there, or the driver is not running.",
    advice="Change the state store's configuration (bound RocksDB's memory), and look at garbage collection.",
    source="Documented target < 2 GB, warning 2-4 GB, critical > 4 GB; GB is 10^9 bytes.",
)
