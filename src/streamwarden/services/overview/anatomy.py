"""A checkpoint in words: `inspect` and the page of a stream say the same of it. Only `anatomy` reads anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from streamwarden.units import DAY, format_count, format_duration, format_size

if TYPE_CHECKING:
    from streamwarden.checkpoint.compact_logs import CompactLog
    from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport, StoreReport
    from streamwarden.checkpoint.formats.logs import LogPosition
    from streamwarden.stream.spec import StreamSpec

NOTHING: Final = "–"


def anatomy(spec: StreamSpec) -> CheckpointReport:
    """The report on a stream's or a query's checkpoint. Raises CheckpointError, StreamwardenError."""
    from streamwarden.adapters.storage.files import open_path
    from streamwarden.checkpoint.diagnosis.report import read_checkpoint

    key = spec.storage.connection
    sink = spec.sink.path if spec.sink.MANIFEST else None
    return read_checkpoint(open_path(spec.checkpoint, key), output=None if sink is None else open_path(sink, key))


def facts(report: CheckpointReport, now: float) -> list[tuple[str, str]]:
    """The lines above the tables: (what, value)."""
    position = report.position
    lines = [
        ("checkpoint", report.path),
        ("query id", position.query_id or "unknown"),
        ("planned", batch_words(position.planned, position.planned_at, now)),
        ("committed", committed_words(position, now)),
        ("gap", gap_words(position)),
        ("in the logs", f"batches {report.retained[0]} to {report.retained[1]}" if report.retained else "no batch"),
        ("watermark", moment_words(report.watermark_ms)),
        ("state store", f"{report.provider or 'unknown'}, {report.shuffle_partitions or 'unknown'} partitions"),
        ("state", NOTHING if report.state_bytes is None else format_size(report.state_bytes)),
        ("formats", ", ".join(f"{name} {version}" for name, version in report.formats.items()) or "unknown"),
    ]
    if report.output is not None:
        newest = "no manifest" if report.sink_newest is None else f"manifest up to batch {report.sink_newest}"
        lines.append(("output", f"{report.output}: {newest}"))
    return [*lines, *((log.name, log_words(log)) for log in report.logs)]


def log_words(log: CompactLog) -> str:
    """`3,200 files in 1.2 MB up to batch 9; batch 19 rewrites it; 3.4 MB more a day`."""
    words = f"{format_count(log.entries, 'file')} in {format_size(log.size)} up to batch {log.batch}"
    words += f"; batch {log.next_batch} rewrites it"
    return words if log.growth is None else f"{words}; {format_size(log.growth * DAY)} more a day"


def ago_words(at: float | None, now: float) -> str:
    """`12.3 s ago`."""
    return NOTHING if at is None else f"{format_duration(max(0.0, now - at))} ago"


def batch_words(batch: int | None, at: float | None, now: float) -> str:
    """`batch 12, 3.0 s ago`."""
    if batch is None:
        return "none"
    return f"batch {batch:,}" + (f", {ago_words(at, now)}" if at is not None else "")


def committed_words(position: LogPosition, now: float) -> str:
    """The newest committed batch."""
    shown = batch_words(position.committed, position.committed_at, now)
    copied = position.committed is not None and position.committed_at is None
    return shown + (", at an unknown time (the files were copied)" if copied else "")


def gap_words(position: LogPosition) -> str:
    """Only the newest planned batch ever runs again, however many commits are missing before it."""
    gap, planned = position.gap, position.planned
    if gap == 0:
        return "none: every planned batch is committed"
    if gap < 0 or planned is None:
        return f"batch {position.committed} is committed and was not planned"
    if gap == 1:
        return f"1 planned and not committed: batch {planned} is running, or will run again at the next start"
    return f"{gap} planned and not committed: only batch {planned}, the newest, will run again at the next start"


def operator_words(operator: OperatorReport) -> str:
    """Its name as far as it is known."""
    if operator.name is None:
        return "unknown (its schema cannot be read)"
    return f"{operator.name} (inferred from its schema)" if operator.inferred else operator.name


def moment_words(unix_ms: int | None) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    if unix_ms is None:
        return NOTHING
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ms} ms after 1970"  # a damaged watermark may lie beyond the calendar


def versions_words(versions: tuple[int, ...]) -> str:
    """`3, 7-12`: consecutive versions as a range."""
    parts: list[list[int]] = []
    for version in sorted(versions):
        if parts and version == parts[-1][1] + 1:
            parts[-1][1] = version
        else:
            parts.append([version, version])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in parts]
    return ", ".join(shown) or NOTHING


def replay_words(store: StoreReport) -> str:
    """The replay of a restart, as text."""
    if store.replay.versions == 0:
        return "nothing"
    return f"{store.replay.versions} versions, {format_size(store.replay.changelog_bytes)}"
