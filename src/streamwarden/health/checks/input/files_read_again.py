"""Files read again: batches in which Spark read files more than once, because it took names for patterns."""

from typing import Final

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.pattern_names import Clean, FilesReadAgain, ReadAgain, files_read_again
from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DeclaredInput, Reading, Window
from streamwarden.progress import Progress
from streamwarden.units import format_count

_CLEAN: Final = "clean"
"""In the evidence: which entries of the logs need not be read again."""


def _read(checkpoint: Location, declared: DeclaredInput) -> FilesReadAgain:
    clean = declared.before.get(_CLEAN)
    known: Clean = clean if isinstance(clean, dict) else {}
    return files_read_again(checkpoint, declared.folders, declared.recursive, known)


READ_AGAIN: Final = Reading(_read)
"""Of the logs of the sources: `inspect` names the damage of one that cannot be read."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many batches of the query read files more than once."""
    query_id = window.log.query_id if window.log is not None else None
    before = window.previous.get(CHECK.name)
    memory = {} if before is None else before.evidence
    read_again = window[READ_AGAIN]
    if query_id is None or read_again is None:
        reason = "the checkpoint names no query yet, or the logs of its sources were not read"
        return CHECK.verdict(window, Status.UNKNOWN, reason, evidence=memory)
    found = read_again.found
    known = memory if memory.get("query_id") == query_id else {}
    last, earlier = _number(known.get("newest"), -1), _number(known.get("count"), 0)
    count = earlier + len({again.batch for again in found if again.batch > last})
    newest = _sentence(window, found[-1], read_again) if found else str(known.get("reads", ""))
    evidence = {"query_id": query_id, "count": count, "newest": found[-1].batch if found else last, "reads": newest}
    evidence[_CLEAN] = read_again.clean
    status = CHECK.grade(float(count), thresholds.of(CHECK.name))
    return CHECK.verdict(window, status, _reason(count, newest), float(count), evidence)


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _reason(count: int, newest: str) -> str:
    if not count:
        return "no batch in the sources' logs has a file whose name Spark takes for a pattern beside other files"
    return newest if count == 1 else f"{count:,} batches read files more than once; the newest: {newest}"


def _sentence(window: Window, again: ReadAgain, known: FilesReadAgain) -> str:
    """The batch with its rows, and the rows of a file in the batches that read each file once."""
    rows = {report.batch_id: _rows(report, again.source) for report in reports(window, len(window.batches))}
    if again.batch not in rows:
        return str(again)
    text = f"{again}; it has {format_count(rows[again.batch], 'row')} from {again.files} files"
    files = known.files[again.source]
    doubled = {other.batch for other in known.found}
    others = [batch for batch, count in files.items() if count and batch in rows and batch not in doubled]
    if others:
        usual = sum(rows[batch] for batch in others) / sum(files[batch] for batch in others)
        own = rows[again.batch] / again.files
        text += f", {own:,.0f} a file, and the batches that read each file once have {usual:,.0f} a file"
    return text


def _rows(report: Progress, source: int) -> int:
    return report.sources[source].rows if source < len(report.sources) else report.rows


CHECK = Check(
    name="files_read_again",
    title="Files read again",
    unit=ValueUnit.TIMES,
    target="none",
    thresholds=limits(0.5, 0.5, ValueUnit.TIMES, "batches whose rows are doubled; one is enough for CRITICAL"),
    judge=check,
    readings=(READ_AGAIN,),
    reads=(
        "The newest 30 entries of each `sources/N` of a file source. While none of them names a pattern, the health "
        "DAG and `watch` read each entry once. A batch counts if it has a file whose path has one of `*?[]{}` or a "
        "backslash, and another file beside it. The verdict shows the input rows of the newest such batch, by Spark's "
        "report, and those a file of the batches that read each file once. A batch that was found counts until the "
        "query has another id, because its rows stay in the output."
    ),
    unknown="The checkpoint names no query yet, or its storage does not answer.",
    advice=(
        "Spark read the other files of these batches once more for each such name, so that their rows are in the query "
        "twice. Let the producer give its files other names before it publishes them, or read one file a batch "
        f"(`max_files_per_trigger: 1`). To repair the output, give the stream {NEW_PLACES}, and let it read its input "
        "again."
    ),
    source="Spark 4.3 takes all files of a batch in the place of each path that looks like a pattern (measured).",
)
