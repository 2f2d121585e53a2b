"""SW111: a script whose queries are not those that its stream declares."""

from collections.abc import Iterable

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """Whether the job is Python at all, and whether its text starts what the file declares."""
    job, declared = facts.job, facts.spec.queries
    if not job.parsed:
        yield RULE.finding(facts, job.problem, FactOrigin.JOB, job.path, severity=Severity.ERROR)
    elif job.module and declared:
        observed = f"the job has `build`, so the stream has one query, and the file declares {', '.join(declared)}"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: queries", severity=Severity.ERROR)
    elif declared and job.queries is not None and job.queries != len(declared):
        observed = f"the script's text starts {_count(job.queries)}, and the file declares {_count(len(declared))}"
        yield RULE.finding(facts, observed, FactOrigin.JOB, job.path, severity=Severity.ERROR)
    elif not declared and (job.queries or 1) > 1:
        observed = f"the script's text starts {_count(job.queries or 1)}, and the file declares none of them"
        yield RULE.finding(facts, observed, FactOrigin.JOB, job.path)


def _count(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


RULE = Rule(
    id="SW111",
    title="Undeclared queries",
    severity=Severity.WARNING,
    reason=(
        "A declared query has its checkpoint claimed before the driver is launched, keeps its name whatever the script "
        "calls it, and is missed when it does not start. An undeclared one is known only once it has started."
    ),
    reads=(
        "The job's text: whether it can be parsed, whether it has `build`, and how often it calls `start()` on a "
        "`writeStream`, or `toTable()`, in code that runs exactly once (functions that are called once included). A "
        "query in a loop, in a branch or in a callback, and any use of a package other than PySpark and the standard "
        "library, make the number unknown: then the rule concludes nothing. It compares the number with `queries` in "
        "the stream's file."
    ),
    remedy=(
        "Write each query of the script into `queries`: its name, and its checkpoint. Correct a job that is not valid "
        "Python."
    ),
    judge=judge,
)
