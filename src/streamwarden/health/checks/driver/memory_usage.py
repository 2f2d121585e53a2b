"""Memory usage: resident memory of the driver without state memory; on a cluster also of each executor."""

from dataclasses import replace

from streamwarden.health.check import DRIVERS, Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.executors import ExecutorSnapshot, executor_snapshots, has_executors
from streamwarden.health.signals.hysteresis import MEMORY, RAISE, RECENT, judge_series, settle
from streamwarden.health.signals.series import BESIDE, FRESH, latest_measured, measured, reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import GB, format_size


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The worse verdict of the driver by the documented limits and, on a cluster, of each executor by its own limit."""
    driver = _driver(window, thresholds)
    if window.driver_alive is False or not has_executors(window.spec):
        return driver
    executors = _executors(window, thresholds)
    worse, other = (executors, driver) if executors.status.rank > driver.status.rank else (driver, executors)
    reason = worse.reason if worse.status is not Status.OK else f"{driver.reason}; {executors.reason}"
    return replace(worse, reason=reason, evidence={**other.evidence, **worse.evidence})


def _driver(window: Window, thresholds: Thresholds) -> Verdict:
    newest = latest_measured(window, "resident_bytes")
    if newest is None or window.driver_alive is False:
        return CHECK.verdict(window, Status.UNKNOWN, _why_not(window))
    state = _state_in_driver(window)
    standbys = [taken for name in BESIDE if (taken := latest_measured(window, name)) is not None]
    beside = sum(taken.value for taken in standbys)
    observations = [
        (measurement.at, max(0.0, measurement.value - state) + beside)
        for measurement in measured(window, "resident_bytes", MEMORY)
    ]
    what = f"resident memory without state ({format_size(state)}) is"
    if has_executors(window.spec):
        what = "the driver's resident memory is"
    elif standbys:
        what = f"resident memory without state ({format_size(state)}), with the standby's {format_size(beside)}, is"
    evidence: dict[str, object] = {"resident_bytes": newest.value, "state_memory_bytes": state, "source": newest.source}
    if standbys:
        evidence["standby_bytes"] = beside
    return judge_series(CHECK, window, thresholds, observations, what=what, where="at", evidence=evidence, lasting=True)


def _state_in_driver(window: Window) -> int:
    if has_executors(window.spec):
        return 0
    # RocksDB's memoryUsedBytes rises and falls with its memtables: only its low point is certainly state
    memory = [sum(op.memory_used_bytes for op in report.operators) for report in reports(window, RECENT)]
    return min(memory, default=0)


def _executors(window: Window, thresholds: Thresholds) -> Verdict:
    """Each snapshot is judged by its fullest executor."""
    snapshots = [snapshot for snapshot in executor_snapshots(window.measurements) if snapshot.memory][-MEMORY:]
    if not snapshots or window.now - snapshots[-1].at > FRESH:
        return CHECK.verdict(window, Status.UNKNOWN, "there is no recent measurement of the memory of the executors")
    own = thresholds.of(CHECK.name)
    marks = {"warning": own["executor_warning"], "critical": own["executor_critical"]}
    settled = settle([_share(snapshot) for snapshot in snapshots], CHECK.grader(marks))
    newest = snapshots[-1]
    fullest = newest.fullest or ""
    used, limit = newest.memory[fullest]
    show, share = ValueUnit.BYTES.show, ValueUnit.SHARE.show
    reason = (
        f"{fullest} uses {show(used)} of its {show(limit)}, {share(used / limit)} "
        f"(warning from {share(marks['warning'])}, critical above {share(marks['critical'])})"
    )
    if settled.status is None:
        reason += f"; measured only {len(snapshots)} time(s), an alarm needs {RAISE}"
    elif settled.held:
        reason += f"; held at {settled.status} until {RECENT} measurements in a row are below it"
    evidence = {
        "executors": {name: {"bytes": used, "limit": limit} for name, (used, limit) in newest.memory.items()},
        "executors_active": newest.active,
        "executors_lost": newest.lost,
        "fullest_recently": [round(_share(snapshot), 4) for snapshot in snapshots[-RECENT:]],
    }
    return CHECK.verdict(window, settled.status or Status.UNKNOWN, reason, used, evidence)


def _share(snapshot: ExecutorSnapshot) -> float:
    return max(snapshot.share(executor) for executor in snapshot.memory)


def _why_not(window: Window) -> str:
    if window.driver_alive is False:
        return "the driver is not running"
    old = measured(window, "resident_bytes", 1)
    if old:
        return f"the newest measurement of resident memory is {window.now - old[-1].at:.0f} s old"
    return "there is no measurement of the resident memory of the driver"


CHECK = Check(
    name="memory_usage",
    title="Memory usage",
    unit=ValueUnit.BYTES,
    target="< 2 GB (10^9 bytes); on a cluster also each executor < 85 % of its limit",
    thresholds=(
        *limits(2 * GB, 4 * GB, ValueUnit.BYTES, "resident bytes without state memory; on a cluster, the driver's"),
        Threshold(
            "executor_warning", 0.85, ValueUnit.SHARE, "WARNING from here on: share of its limit that an executor uses"
        ),
        Threshold(
            "executor_critical", 0.95, ValueUnit.SHARE, "CRITICAL beyond: share of its limit that an executor uses"
        ),
    ),
    judge=check,
    consequence_of=NOT_RUNNING,
    judges=DRIVERS,
    reads=(
        "The measurement `resident_bytes` (resident memory of the driver's process tree: JVM, Python, workers, taken "
        "by the runner about every ten seconds). With a local master minus state memory: "
        "`stateOperators[].memoryUsedBytes` summed over operators, the smallest sum of the five newest reports, "
        "because RocksDB's value rises and falls with its memtables (nothing is subtracted for a driver of several "
        "queries). In a group it is the driver's Python process and an equal share of the group's JVM and what that "
        "started. If the stream has a warm standby, its newest `standby_resident_bytes` is added, and if it has a pool "
        "of them, the newest `pool_resident_bytes`: its share of what they have. "
        "On a cluster the state is in the executors, and each of them is judged too: the resident memory "
        "in its newest heartbeat at which it ran a task (`ProcessTreeJVMRSSMemory` + `ProcessTreePythonRSSMemory` of "
        "`executorUpdates` in Spark's `SparkListenerExecutorMetricsUpdate`, without `ProcessTreeOtherRSSMemory`, which "
        "can count a child between its clone and its exec as a second JVM; without process-tree metrics "
        "`JVMHeapMemory` + `JVMOffHeapMemory`, which misses Python and RocksDB) against "
        "`spark.executor.memory` + overhead (+ off-heap and PySpark memory, where set). The verdict is the worse of "
        "the driver's and the fullest executor's. `peakMemoryMetrics` of Spark's REST API is not read: a peak is never "
        "taken back, and an alarm of it would not end."
    ),
    unknown="There is no measurement of the last two minutes for the driver or (on a cluster) the executors, or the "
    "driver is not running.",
    advice="Change the state store's configuration (bound RocksDB's memory), and check garbage collection. For an "
    "executor, raise its memory or its overhead: YARN and Kubernetes kill an executor that exceeds its limit.",
    source="Documented target < 2 GB, warning 2-4 GB, critical > 4 GB; GB is 10^9 bytes. The shares of an executor's "
    "limit are Streamwarden's own: a container is killed at 100 %.",
    essential=True,
)
