"""Batches skipped: committed batches of which Spark wrote no row, because an older run's manifest listed them."""

from collections.abc import Iterable

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many batches the manifest skipped, or is about to skip."""
    query_id = window.log.query_id if window.log is not None else None
    if query_id is None:
        before = window.previous.get(CHECK.name)
        memory = {} if before is None else before.evidence
        return CHECK.verdict(window, Status.UNKNOWN, "the checkpoint names no query yet", evidence=memory)
    earlier = _earlier(window, query_id)
    if window.skipped is None and not earlier:
        if window.spec.sink.DECLARED and not window.spec.sink.MANIFEST:
            return CHECK.not_applicable(window, "the output is no folder of files with a manifest", 0.0)
        return CHECK.verdict(window, Status.UNKNOWN, "the output has no manifest yet, or it could not be read")
    skipped = sorted({*earlier, *(window.skipped.skipped if window.skipped else ())})
    ahead = window.skipped.ahead if window.skipped else range(0)
    count = float(len(skipped) + len(ahead))
    evidence = {"query_id": query_id, "skipped": skipped, "ahead": [ahead[0], ahead[-1]] if ahead else []}
    status = CHECK.grade(count, thresholds.of(CHECK.name))
    return CHECK.verdict(window, status, _reason(skipped, ahead), count, evidence)


def _earlier(window: Window, query_id: str) -> list[int]:
    """The batches that earlier evaluations found: the logs forget them, and their rows stay lost."""
    before = window.previous.get(CHECK.name)
    if before is None or before.evidence.get("query_id") != query_id:
        return []
    found = before.evidence.get("skipped")
    return [int(batch) for batch in found] if isinstance(found, Iterable) else []


def _reason(skipped: list[int], ahead: range) -> str:
    parts = []
    if skipped:
        parts.append(
            f"Spark committed {_named(skipped)} without writing a row: the output's manifest has an older run's entry"
        )
    if ahead:
        parts.append(f"Spark will skip {_named(list(ahead))}, which the output's manifest lists and no plan has")
    return "; ".join(parts) or "each entry of the manifest is younger than the plan of its batch"


def _named(batches: list[int]) -> str:
    if len(batches) == 1:
        return f"batch {batches[0]}"
    shown = f"{batches[0]} to {batches[-1]}"
    return f"batches {shown}" if batches[-1] - batches[0] < len(batches) else f"{len(batches)} batches of {shown}"


CHECK = Check(
    name="batches_skipped",
    title="Batches skipped",
    unit=ValueUnit.TIMES,
    target="none",
    thresholds=limits(0.5, 0.5, ValueUnit.TIMES, "batches whose rows are lost; one is enough for CRITICAL"),
    judge=check,
    probes=frozenset({Probed.SKIPPED}),
    reads=(
        "The times of the entries in the output's `_spark_metadata` and of the files in `offsets/`, both listed once. "
        "An entry that is older than the plan of its batch is another run's. It is read, and counts only if its data "
        "files were written before the batch was planned. An entry beyond the newest plan is about to be skipped. The "
        "output of a script is taken from Spark's report. A batch that was found stays in the verdict until the query "
        "has another id, because its rows stay lost."
    ),
    unknown="The checkpoint names no query yet, the output has no manifest yet, or the storage does not answer.",
    advice=(
        f"Stop the stream. The rows of these batches are in no file: give the stream {NEW_PLACES}, and let it read its "
        "input again; or restore the checkpoint that belongs to this output."
    ),
    source="Spark's file sink writes no batch that its manifest lists (measured: rows lost without an error).",
)
