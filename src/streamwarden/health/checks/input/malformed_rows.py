"""Malformed rows: share of the newest input that could not be used."""

from collections.abc import Sequence
from itertools import islice

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.quarantine import QuarantineSample
from streamwarden.health.signals.freshness import HISTORY, still_holds
from streamwarden.health.signals.hysteresis import MEMORY
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.progress import Progress
from streamwarden.units import format_count

_REASONS = 3
"""Reasons that a verdict names."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The share of recent input rows that could not be used."""
    limits_in_force = thresholds.of(CHECK.name)
    if not reports(window, 1):
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report counts the rows of the input")
    if window.spec.quarantine is None:
        return CHECK.not_applicable(window, "no quarantine is declared, so no malformed row is set aside", 0.0)
    counted = (report for report in reversed(reports(window, 2 * MEMORY)) if report.read)
    newest = list(islice(counted, MEMORY))
    rows = sum(report.read for report in newest)
    whole = [report for report in newest if _unusable(report) >= max(report.read, limits_in_force["least_whole"])]
    few = rows < limits_in_force["least_rows"]
    if few and not whole:
        reason = f"too few for a verdict: {format_count(rows, 'row')} in {format_count(len(newest), 'batch')}"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    value = round(sum(map(_unusable, newest)) / rows, 9)
    status = Status.CRITICAL if whole else CHECK.grade(value, limits_in_force)
    evidence = _evidence(newest, whole, window.quarantined)
    reason = f"{_words(newest, whole, window.quarantined)} ({CHECK.limits_text(limits_in_force)})"
    return still_holds(window, thresholds, CHECK.verdict(window, status, reason, value, evidence))


def _unusable(report: Progress) -> int:
    return report.malformed + report.empty


def _words(newest: Sequence[Progress], whole: Sequence[Progress], sample: QuarantineSample | None) -> str:
    rows, bad = sum(report.read for report in newest), sum(map(_unusable, newest))
    batches = format_count(len(newest), "newest batch")
    text = f"{bad:,} of {rows:,} rows ({CHECK.unit.show(bad / rows)}) of the {batches} could not be used"
    if whole:
        text = f"batch {whole[0].batch_id} had no usable row among its {whole[0].read:,}; {text}"
    if empty := sum(report.empty for report in newest):
        text += f"; {empty:,} of them have no value in any column of the schema, which is a sign of renamed columns"
    return text if sample is None else f"{text}; in batch {sample.batch}: {_reasons(sample)}"


def _reasons(sample: QuarantineSample) -> str:
    named = [f"{reason} ({count:,})" for reason, count in islice(sample.reasons.items(), _REASONS)]
    return "; ".join(named)


def _evidence(
    newest: Sequence[Progress], whole: Sequence[Progress], sample: QuarantineSample | None
) -> dict[str, object]:
    evidence: dict[str, object] = {
        "rows": sum(report.read for report in newest),
        "malformed": sum(report.malformed for report in newest),
        "empty": sum(report.empty for report in newest),
        "batches_without_a_usable_row": [report.batch_id for report in whole],
    }
    if sample is not None:
        evidence |= {"sample_batch": sample.batch, "reasons": _reasons(sample), "example": sample.example}
    return evidence


CHECK = Check(
    name="malformed_rows",
    title="Malformed rows",
    unit=ValueUnit.SHARE,
    target="< 1 % of the input",
    thresholds=(
        *limits(0.01, 0.1, ValueUnit.SHARE, "share of the input rows that could not be used"),
        Threshold("least_rows", 100, ValueUnit.ROWS, "input rows below which the verdict is UNKNOWN"),
        Threshold("least_whole", 1, ValueUnit.ROWS, "input rows from which a batch without a usable one is CRITICAL"),
    ),
    judge=check,
    probes=frozenset({Probed.QUARANTINED}),
    consequence_of=NOT_RUNNING,
    while_running=True,
    raise_after=1,
    reads=(
        "`observedMetrics.input` of the newest 20 batches with rows, which `read_rows` counts in a stream with a "
        "quarantine: (`malformed` + `empty`) / `read`. Empty rows parse and have no value in any column of the schema. "
        "A batch of which no row was usable is CRITICAL, however good the others were. The reasons, and an example in "
        "the evidence, come from the quarantine's folder of the newest batch that has one."
    ),
    unknown=(
        f"There is no report, or fewer than `least_rows` rows were counted and no batch was without a usable row. "
        f"{HISTORY}"
    ),
    advice=(
        "Read the rows in the stream's quarantine (`query=…/batch=…`), each with its reason, file and position. If the "
        "producer changed its format, adapt the schema of the job, or have the producer change it back. Correct the "
        "rows and publish them under a new file name: the stream does not read them again by itself."
    ),
    source="Design of Streamwarden: a renamed column once emptied an output while every other check was OK.",
)
