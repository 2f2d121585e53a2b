"""SW107: a recovery that was never tried, or not recently."""

from collections.abc import Iterable
from typing import Final

from streamwarden.lint.facts import DrillFacts, Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.units import DAY, HOUR, format_duration

_PRESETS: Final = {"@hourly": HOUR, "@daily": DAY, "@weekly": 7 * DAY, "@monthly": 31 * DAY, "@yearly": 366 * DAY}
LONGEST: Final = 31 * DAY
"""Seconds between two drills where the schedule is a cron expression, or there is none."""

LATE: Final = 2.0
"""Intervals that may pass between two drills before the next one is overdue."""


def judge(facts: Facts) -> Iterable[Finding]:
    """Declared, run, run lately, and passed: the first condition that fails is reported, for each drill."""
    if facts.drills is None:
        yield RULE.unknown(facts, "the drills were not read", FactOrigin.DECLARATION, "config/drills")
        return
    if not facts.drills:
        observed = "no drill is declared for this stream"
        yield RULE.finding(facts, observed, FactOrigin.DECLARATION, "config/drills")
        return
    if facts.history is None or facts.history.batches == 0:
        return  # a stream that never ran has nothing to drill yet
    for drill in facts.drills:
        observed = _late(drill, facts.history.now)
        if observed:
            yield RULE.finding(facts, observed, FactOrigin.HISTORY, f"drill {drill.name}")


def interval(schedule: str | None) -> float:
    """Seconds between two runs that `schedule` asks for, at most `LONGEST` where that is not a preset."""
    return _PRESETS.get(schedule or "", LONGEST)


def _late(drill: DrillFacts, now: float) -> str:
    if drill.last_at is None:
        return f"the drill {drill.name} is declared and was never completed"
    age = now - drill.last_at
    if age > LATE * interval(drill.schedule):
        return (
            f"the drill {drill.name} was last completed {format_duration(age)} ago ({drill.schedule or 'no schedule'})"
        )
    if drill.last_passed is False:
        return f"the drill {drill.name} deviated when it was last run"
    return ""


RULE = Rule(
    id="SW107",
    title="Never drilled, or drill overdue",
    severity=Severity.WARNING,
    reason="A recovery that was never tried is a hope: the first time should not be the night on which it is needed.",
    reads=(
        "`config/drills`: a drill that names the stream; from the history of a stream that has run, its newest "
        f"completed run: not older than {LATE:.0f} intervals of its schedule ({format_duration(LONGEST)} where it is "
        "not a preset), and not deviated."
    ),
    remedy=(
        "Declare a drill in `config/drills` with a schedule, and run it: `streamwarden drill run NAME`. A script "
        "is drilled as it is, if one of its queries keeps an output."
    ),
    judge=judge,
)
