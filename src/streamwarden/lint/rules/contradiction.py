"""SW112: a script that names another place or trigger than its stream's file."""

from collections.abc import Iterable

from streamwarden.lint.contradictions import contradictions
from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule


def judge(facts: Facts) -> Iterable[Finding]:
    """One finding for each value that differs."""
    for contradiction in contradictions(facts.spec, facts.job):
        observed = f"{contradiction.observed}, and the file declares {contradiction.declared} (`{contradiction.key}`)"
        yield RULE.finding(facts, observed, FactOrigin.JOB, f"{facts.job.path}:{contradiction.line}")


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
        "script are below the data folder, as those of the file are. A source or sink of the kind `script` declares "
        "nothing to compare."
    ),
    remedy=(
        "Make the two the same. A checkpoint or trigger may also be left out of the script: Streamwarden then sets the "
        "declared one."
    ),
    judge=judge,
)
