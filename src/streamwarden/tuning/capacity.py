"""Can the stream catch up after a restart? It must read the rows that came meanwhile, in addition to the new ones.

In `CATCH_UP` seconds after a restart of D seconds, lambda x (D + CATCH_UP) rows are to be read, at lambda rows a second
that come: the rate needed is lambda x (1 + D / CATCH_UP).
"""

from typing import Final

from streamwarden.health.signals.series import percentile
from streamwarden.tuning.history import History, arrivals
from streamwarden.tuning.rates import cost_of_batches
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.tuning.restarts import restart_seconds
from streamwarden.units import format_duration

TOPIC: Final = "capacity"
CURES: Final = "backlog"
CATCH_UP: Final = 1800.0
"""Seconds within which the stream should have caught up."""


def needed(rate: float, down: float, within: float = CATCH_UP) -> float:
    """Rows a second to read so that a stream of `rate` rows a second catches up `within` seconds of `down` seconds."""
    return rate * (1 + down / within)


def advise(history: History) -> Recommendation:
    """Compare the rate needed with the best rate that the stream has reached."""
    reports = history.with_rows()
    too_few = history.too_few(reports)
    if too_few:
        return unknown(TOPIC, too_few)
    if history.spec.trigger.real_time is not None:
        return unknown(
            TOPIC, "in real-time mode a batch shows how many rows came while it lasted, not how many it could process"
        )
    restart, rate, cost = restart_seconds(history), arrivals(reports), cost_of_batches(reports)
    if restart is None:
        return unknown(TOPIC, "no restart was measured: no driver's first batch is in the history")
    if rate is None or cost is None:
        return unknown(TOPIC, "all batches came at one instant: how many rows come in a second is not known")
    most = percentile([report.rows / (report.duration_ms / 1000) for report in reports if report.duration_ms > 0], 0.95)
    want = needed(rate, restart[0])
    numbers = (
        Number(
            "rows a second", rate, "rows", f"read in {len(reports)} batches; while a backlog is read, more than comes"
        ),
        Number("restart", restart[0], "seconds", restart[1]),
        Number("rate needed", want, "rows", f"rows a second x (1 + restart / {CATCH_UP:.0f} s)"),
        Number("rate seen", most, "rows", "95th percentile of rows / duration of a batch"),
        Number("cost of a row", cost.per_row, "seconds", cost.source),
    )
    goal = f"to catch up within {format_duration(CATCH_UP)} of a restart of {format_duration(restart[0])}"
    if most >= want:
        says = f"{want:,.0f} rows a second are needed {goal}; {most:,.0f} were seen: enough, {most / want:.1f} times."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=numbers)
    says = (
        f"{want:,.0f} rows a second are needed {goal}, and {most:,.0f} is the best that was seen: give it "
        f"{want / most:.1f} times the cores (and partitions), or larger batches."
    )
    return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers)
