"""SW112: a script that names another place or trigger than its stream's file."""

from collections.abc import Iterable

from streamwarden.lifecycle.script_queries import Contradiction, input_contradictions, query_contradictions
from streamwarden.lint.facts import Facts, JobFacts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.stream.spec import StreamSpec


def judge(facts: Facts) -> Iterable[Finding]:
    """One finding for each value that differs."""
    for contradiction in contradictions(facts.spec, facts.job):
        observed = f"{contradiction.observed}, and the file declares {contradiction.declared} (`{contradiction.key}`)"
        yield RULE.finding(facts, observed, FactOrigin.JOB, f"{facts.job.path}:{contradiction.line}")


def contradictions(spec: StreamSpec, job: JobFacts) -> tuple[Contradiction, ...]:
    """The values in the script's text that a driver would refuse, or that the checks and drills would not know.

    None for a module with `build`: it gets its places from the stream's file.
    """
    if job.module or not job.parsed:
        return ()
    single = not spec.queries and job.queries == 1
    of_queries = (
        contradiction
        for query in job.named
        for contradiction in query_contradictions(spec, query, single=single, trigger_written=spec.trigger.written)
    )
    return (*of_queries, *input_contradictions(spec, job.inputs))


RULE = Rule(
    id="SW112",
    title="Script contradicts its stream's file",
    severity=Severity.ERROR,
    reason=(
        "The lease, the health checks and the verification go by the stream's file. A driver refuses a query on "
        "another checkpoint, with another output or with another trigger. Of an input other than the declared one, "
        "the checks of backlog and lag know nothing."
    ),
    reads=(
        "The job's text, of a script with one query: checkpoint, output format, output folder or topic, trigger, and "
        "the input folder or topic if it has one source; of a script with declared `queries`: their checkpoints. Only "
        "constants are compared: texts, names that are assigned once, and f-strings of both. Relative paths of the "
        "script are below the data folder. Those of the file are, too, unless it is a URL. A source or sink of the "
        "kind `script` declares nothing to compare."
    ),
    remedy=(
        "Make the two the same. A checkpoint or trigger may also be left out of the script: Streamwarden then sets the "
        "declared one."
    ),
    judge=judge,
)
