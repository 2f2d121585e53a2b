"""SW113: a declared quarantine that the job never fills."""

from collections.abc import Iterable

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """Whether the job reads its rows through `read_rows`."""
    if facts.spec.quarantine is None or not facts.job.parsed or facts.job.problem:
        return
    where = f"{facts.file}: quarantine"
    if facts.job.reads_rows is False:
        observed = f"the file declares the quarantine {facts.spec.quarantine}, and the job does not use `read_rows`"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)
    elif facts.job.reads_rows is None:
        observed = "the job imports other modules, which may use `read_rows` or not"
        yield RULE.unknown(facts, observed, FactOrigin.JOB, facts.job.path)


RULE = Rule(
    id="SW113",
    title="Unused quarantine",
    severity=Severity.WARNING,
    reason=(
        "Only `read_rows` counts the rows that cannot be used and writes them to the quarantine. A job that reads its "
        "source by other means drops such rows, or fails on them, and the declared folder stays empty."
    ),
    reads="`quarantine` in the stream's file, and whether the job's text uses `read_rows`.",
    remedy=(
        "Read the source with `streamwarden.spark.sources.read_rows` in build(), or remove `quarantine` from the "
        "stream's file."
    ),
    judge=judge,
)
