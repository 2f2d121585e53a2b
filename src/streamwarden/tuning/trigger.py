"""How long the trigger should be: long enough that a batch of the rows of that time is done before the next one.

A batch of r rows takes about fixed + r x per_row; at lambda rows a second and a trigger T it takes fixed + lambda x T x
per_row. That stays within 80 % of T if T >= fixed / (0.8 - lambda x per_row); if lambda x per_row is 0.8 or more, no
trigger is long enough.
"""

from __future__ import annotations

import math
from typing import Final

from streamwarden.health.series import percentile
from streamwarden.tuning.history import History, arrivals
from streamwarden.tuning.rates import Cost, cost_of_batches
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import format_duration

TOPIC: Final = "trigger"
BUSY: Final = 0.8
"""Share of the trigger that a batch may take: the rest absorbs a slow batch."""


def shortest(cost: Cost, rate: float) -> float:
    """Seconds of the shortest trigger that a stream of `rate` rows a second keeps up with; infinite without one."""
    room = BUSY - rate * cost.per_row
    return cost.fixed / room if room > 0 else math.inf


def advise(history: History) -> Recommendation:
    """Recommend a trigger from the batches' durations and rows."""
    reports = history.with_rows()
    trigger, too_few = history.spec.trigger, history.too_few(reports)
    if too_few:
        return unknown(TOPIC, too_few)
    if trigger.available_now:
        return Recommendation(
            topic=TOPIC, status=Decision.KEEP, says="the stream reads what is there and ends: it has no trigger."
        )
    if trigger.real_time is not None:
        return Recommendation(
            topic=TOPIC,
            status=Decision.KEEP,
            says=f"real-time mode: a batch lasts {format_duration(trigger.real_time)} by design. Longer ones mean "
            "fewer pauses, in which rows wait for the commit, and more to read again after a kill.",
        )
    cost, rate = cost_of_batches(reports), arrivals(reports)
    if cost is None or rate is None:
        return unknown(TOPIC, "all batches came at one instant, or are of one size")
    now, long = trigger.processing_time or 0.0, percentile([each.duration_ms / 1000 for each in reports], 0.95)
    wanted = shortest(cost, rate)
    numbers = (
        Number("trigger now", now, "seconds", "trigger.processing_time"),
        Number("batch", long, "seconds", f"95th percentile of {len(reports)} batches with rows"),
        Number("fixed cost of a batch", cost.fixed, "seconds", cost.source),
        Number("cost of a row", cost.per_row, "seconds", cost.source),
        Number("rows a second", rate, "rows", "rows read over the time that the batches span"),
        Number("shortest trigger", wanted, "seconds", f"fixed / ({BUSY} - rows a second x cost of a row)"),
    )
    if math.isinf(wanted):
        says = (
            f"rows come at {rate:,.0f} a second and one takes {format_duration(cost.per_row)}: no trigger is long "
            "enough. Give it more cores, or fewer rows."
        )
        return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers)
    if now >= wanted:
        slow = (
            f"; one in twenty takes {format_duration(long)} or more, as after a start or in a backlog"
            if long > now
            else ""
        )
        says = f"a trigger of {format_duration(wanted)} would do, it is {format_duration(now)}: leave it{slow}."
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=says, numbers=numbers)
    value = math.ceil(wanted)
    says = (
        f"at {rate:,.0f} rows a second batches do not keep up with a trigger of {format_duration(now)}: take {value} s."
    )
    settings = {"trigger.processing_time": f"{value} seconds"}
    return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers, settings=settings)
