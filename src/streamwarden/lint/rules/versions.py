"""SW105: too few versions kept to go back in time."""

from collections.abc import Iterable
from typing import Final

from streamwarden.lifecycle.settings import DEFAULTS, RETAIN, number
from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule

DEFAULT: Final = round(DEFAULTS[RETAIN])
"""Spark's."""


def judge(facts: Facts) -> Iterable[Finding]:
    """Fewer than Spark keeps by itself, or than a declared drill goes back."""
    kept = int(number(facts.conf, RETAIN))
    where = f"{facts.file}: spark.conf.{RETAIN}"
    for drill in facts.drills or ():
        if drill.rewind is not None and kept <= drill.rewind:
            observed = f"{kept} batches are kept, and the drill {drill.name} goes {drill.rewind} back"
            yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where, severity=Severity.ERROR)
    if kept < DEFAULT:
        observed = f"{kept} batches are kept{_time(facts, kept)}: that far back state can be read, forked and compared"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, where)


def _time(facts: Facts, kept: int) -> str:
    seconds = facts.spec.trigger.interval
    return f", some {kept * seconds:.0f} s" if seconds else ""


RULE = Rule(
    id="SW105",
    title="Versions kept too few for time travel",
    severity=Severity.WARNING,
    reason=(
        "State as of an older batch can be read (`statestore` with `batchId`), forked and compared only while its "
        "files are kept. When a wrong number is noticed, its batch is already some way back."
    ),
    reads=f"`{RETAIN}` (Spark's {DEFAULT} at least) and how far the stream's drills rewind (`fork.rewind`).",
    remedy=f"Set `{RETAIN}` under `spark.conf`: the time that you want to look back, divided by the trigger.",
    judge=judge,
)
