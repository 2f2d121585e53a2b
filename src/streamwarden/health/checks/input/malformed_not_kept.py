"""Malformed rows not kept: rows that could not be used and that the quarantine will never have."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.quarantine import QuarantineGap
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_count


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many malformed rows of the last day are in no quarantine."""
    limits_in_force = thresholds.of(CHECK.name)
    gaps = window.gaps
    if not gaps and not reports(window, 1):
        return CHECK.verdict(window, Status.UNKNOWN, "no report of a batch is known")
    if not gaps:
        return CHECK.verdict(window, Status.OK, "the quarantine gave up no batch in the last 24 hours", 0.0)
    value = sum(gap.rows or 0 for gap in gaps)
    status = max(CHECK.grade(value, limits_in_force), Status.WARNING, key=lambda grade: grade.rank)
    newest = max(gaps, key=lambda gap: gap.at)
    reason = (
        f"{format_count(value, 'malformed row')} of the last 24 hours {'is' if value == 1 else 'are'} in no quarantine"
        f"{_uncounted(gaps)}; the newest, of {_batches(newest)}: {newest.reason} ({CHECK.limits_text(limits_in_force)})"
    )
    evidence: dict[str, object] = {"batches": ", ".join(map(_batches, gaps)), "query_id": newest.query_id}
    return CHECK.verdict(window, status, reason, float(value), evidence)


def _batches(gap: QuarantineGap) -> str:
    return f"batch {gap.first}" if gap.first == gap.last else f"batches {gap.first} to {gap.last}"


def _uncounted(gaps: tuple[QuarantineGap, ...]) -> str:
    """The batches whose rows no report counts."""
    unknown = [_batches(gap) for gap in gaps if gap.rows is None]
    return f", and those of {', '.join(unknown)}, which no report counts" if unknown else ""


CHECK = Check(
    name="malformed_not_kept",
    title="Malformed rows not kept",
    unit=ValueUnit.ROWS,
    target="none",
    thresholds=limits(1, 1000, ValueUnit.ROWS, "malformed rows of the last 24 hours that are in no quarantine"),
    judge=check,
    reads=(
        "The batches of the last 24 hours that the driver reported as lost to the quarantine, because their input was "
        "removed before it could be read once more, and the malformed rows that the reports of these batches count. A "
        "batch whose report is lost is a WARNING too: nobody knows how many rows it had."
    ),
    unknown="No report of a batch is known, and no gap.",
    advice=(
        "These rows are lost, unless the producer still has them: `driver.log` names the batches and the reason. Keep "
        "the input longer (retention of the topic, `cleanSource`, the job that deletes files), and see whether the "
        "storage of the quarantine was unavailable."
    ),
    source="Design of Streamwarden: a row that nobody can read again is lost.",
)
