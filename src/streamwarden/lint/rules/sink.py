"""SW109: a sink that is not idempotent when a batch is re-run."""

from collections.abc import Iterable, Mapping
from typing import Final

from streamwarden.lint.facts import Facts, SinkUse
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.verification.comparing.events import EVENT_ID

_FOREIGN: Final[Mapping[str, str | None]] = {
    "hudi": None,  # by a transaction that knows the batch
    "foreach": "calls the writer again for a batch that runs again",
    "console": "prints, and keeps nothing",
    "memory": "keeps rows in the driver's memory: a restart loses them",
    "noop": "writes nothing",
}
"""Sinks of no kind that a stream can declare -> why they do not write a batch exactly once; None if they do."""
_UNKNOWN: Final = "is not known to write a batch exactly once"


def judge(facts: Facts) -> Iterable[Finding]:
    """The job's own writers, and the declared sink where the job has none."""
    for use in facts.job.sinks:
        yield from _of_job(facts, use)
    if facts.job.sinks:
        if not facts.job.module and facts.job.queries is None:
            observed = "the text does not show how many queries the script starts: it may have other sinks"
            yield RULE.unknown(facts, observed, FactOrigin.JOB, facts.job.path)
        return
    sink, where = facts.spec.sink, f"{facts.file}: sink.kind"
    if not sink.DECLARED:
        observed = facts.job.problem or "the job has its own sink, and no writeStream was found in its text"
        yield RULE.unknown(facts, observed, FactOrigin.JOB, facts.job.path)
    elif sink.REPEATS is not None:
        once = f"a reader has it once if it drops the ids ({EVENT_ID}) that it has seen"
        observed = f"the sink {sink.kind} {sink.REPEATS}; {once}"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)


def _of_job(facts: Facts, use: SinkUse) -> Iterable[Finding]:
    where = f"{facts.job.path}:{use.line}"
    if use.format is None:
        yield RULE.unknown(facts, "the text does not show the format of the sink", FactOrigin.JOB, where)
    elif use.format == "foreachBatch":
        if use.uses_batch_id is None:
            observed = (
                "the text does not show whether what the function of foreachBatch writes depends on the batch's id"
            )
            yield RULE.unknown(facts, observed, FactOrigin.JOB, where)
        elif not use.uses_batch_id:
            observed = (
                "what foreachBatch writes does not depend on the batch's id: a batch that runs again is written twice"
            )
            yield RULE.finding(facts, observed, FactOrigin.JOB, where, severity=Severity.ERROR)
    elif use.format == "table":
        yield RULE.unknown(facts, "toTable: the table's format is not known here", FactOrigin.JOB, where)
    elif (why := {**_FOREIGN, **facts.writers}.get(use.format, _UNKNOWN)) is not None:
        yield RULE.finding(facts, f"the sink {use.format} {why}", FactOrigin.JOB, where)


RULE = Rule(
    id="SW109",
    title="Non-idempotent sink",
    severity=Severity.WARNING,
    reason="After a kill the last planned batch runs again. A sink that does not know the batch writes its rows twice.",
    reads=(
        "`sink.kind`, or each `writeStream` of the job: its format, and for foreachBatch whether what the "
        "function writes depends on the batch's id: a mention in a print or a log does not count (only a drill shows "
        "whether it uses it correctly)."
    ),
    remedy=(
        "Write with the parquet sink (readers honour `_spark_metadata`) or the PostgreSQL sink, or tie each batch to "
        "its id in one transaction of the target. Where at-least-once is meant, let the readers drop repeats by a key "
        "(the Kafka sink, `kind: kafka`, gives each record an id for that), and say so in the job."
    ),
    judge=judge,
)
