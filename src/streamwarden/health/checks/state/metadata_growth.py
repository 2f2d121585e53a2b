"""Metadata growth: the size of the logs that Spark rewrites as a whole every few batches."""

import statistics

from streamwarden.checkpoint.compact_logs import CompactLog
from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.units import format_count, format_duration, format_size

_ENOUGH = 2
"""Compactions from which their cost is known."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Bytes of the largest log that a compaction rewrites."""
    limits_in_force = thresholds.of(CHECK.name)
    if window.logs is None:
        return CHECK.verdict(window, Status.UNKNOWN, "the logs of the sink and of the sources were not read")
    if not window.logs:
        return CHECK.verdict(window, Status.OK, "no log has been compacted yet, or there is none", 0.0)
    largest = max(window.logs, key=lambda log: log.size)
    evidence: dict[str, object] = {f"{log.name} bytes": log.size for log in window.logs}
    evidence |= {f"{log.name} files": log.entries for log in window.logs}
    evidence |= {"compaction_batch": largest.next_batch, "bytes_a_day": round((largest.growth or 0.0) * 86400)}
    reason = f"{_words(window, largest, limits_in_force['critical'])} ({CHECK.limits_text(limits_in_force)})"
    status = CHECK.grade(largest.size, limits_in_force)
    return CHECK.verdict(window, status, reason, float(largest.size), evidence)


def _words(window: Window, log: CompactLog, critical: float) -> str:
    about = "" if log.exact else "about "
    text = (
        f"{log.name} names {about}{format_count(log.entries, 'file')} in {format_size(log.size)}, which batch "
        f"{log.next_batch} reads and writes as a whole"
    )
    if (cost := compaction_seconds(window, log)) is not None:
        text += f"; such a batch takes {format_duration(cost)} longer than the others"
    if log.growth and log.size < critical:
        text += f"; at {format_size(log.growth * 86400)} a day it is critical in "
        text += format_duration((critical - log.size) / log.growth)
    return text


def compaction_seconds(window: Window, log: CompactLog) -> float | None:
    """How much longer the batches that compact take, by the medians; None with fewer than two of them, or less time."""
    every = log.next_batch - log.batch
    taken = [(report.batch_id, report.duration_ms / 1000) for report in reports(window, len(window.batches))]
    compacting = [seconds for batch, seconds in taken if (batch + 1) % every == 0]
    others = [seconds for batch, seconds in taken if (batch + 1) % every]
    if len(compacting) < _ENOUGH or not others:
        return None
    longer = statistics.median(compacting) - statistics.median(others)
    return longer if longer > 0 else None


CHECK = Check(
    name="metadata_growth",
    title="Metadata growth",
    unit=ValueUnit.BYTES,
    target="< 64 MB in each log that Spark rewrites",
    thresholds=limits(64e6, 512e6, ValueUnit.BYTES, "bytes of the largest compact file"),
    judge=check,
    probes=frozenset({Probed.LOGS}),
    rests=True,
    consequence_of=NOT_RUNNING,
    reads=(
        "The newest `N.compact` of the output's `_spark_metadata` and of each `sources/N`: its size, and the files "
        "that it names (estimated from its beginning). The batch that compacts next follows from the interval. The "
        "growth is the difference to the compact file before it, and the cost is the median of the batches that "
        "compact, less that of the others. A log names every file for ever, the manifest up to the sink's "
        "`retention`, and the driver holds it in memory while it rewrites it."
    ),
    unknown="No batch was planned yet, or the storage of the checkpoint or of the output does not answer.",
    advice=(
        "Write and read fewer, larger files: a longer trigger, fewer partitions before the sink. `retention` in "
        "`sink.options` (`30 days`) lets the manifest forget files that are older; readers that honour the manifest no "
        "longer see these. The log of a source only becomes smaller with a new checkpoint. `streamwarden advise` names "
        "the numbers."
    ),
    source="Design of Streamwarden: 64 MB are the names of about 250,000 files.",
)
