"""How long the trigger should be: long enough that a batch of the rows of that time is done before the next one.

A batch of r rows takes about fixed + r x per_row; at lambda rows a second and a trigger T it takes fixed + lambda x T x
per_row. That stays within 80 % of T if T >= fixed / (0.8 - lambda x per_row); if lambda x per_row is 0.8 or more, no
trigger is long enough.

Whether the trigger is too short at all is decided by the check `batch_longer_than_trigger` on the same batches: the two
never contradict each other, and with the trigger that is recommended these batches would raise no alarm.
"""

import math
from typing import Final

from streamwarden.health.checks.batches.batch_longer_than_trigger import CHECK
from streamwarden.health.verdict import Status, Verdict
from streamwarden.tuning.history import History, arrivals
from streamwarden.tuning.rates import Cost, cost_of_batches
from streamwarden.tuning.recommendation import Decision, Number, Recommendation, unknown
from streamwarden.units import format_duration

TOPIC: Final = "trigger"
CURES: Final = CHECK.name
BUSY: Final = 0.8
"""Share of the trigger that a batch may take: the rest absorbs a slow batch."""


def shortest(cost: Cost, rate: float) -> float:
    """Seconds of the shortest trigger that a stream of `rate` rows a second keeps up with; infinite without one."""
    room = BUSY - rate * cost.per_row
    return cost.fixed / room if room > 0 else math.inf


def costs(cost: Cost, rate: float, period: float, advised: float) -> float | None:
    """Percent of the processing time of a row that a batch every `advised` seconds would save, in place of one every
    `period` seconds. None if the two parts of a batch's time are not known apart.

    A batch of the rows of T seconds takes fixed + rate x T x per_row, so that a row takes c(T) = fixed / (rate x T) +
    per_row: the cost is 1 - c(advised) / c(period). Both parts are those of the line through the recorded batches.
    """
    if cost.fixed <= 0 or rate <= 0 or period <= 0:
        return None
    now, then = (cost.fixed / (rate * seconds) + cost.per_row for seconds in (period, advised))
    return 100 * (1 - then / now)


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
    now, verdict = trigger.processing_time or 0.0, history.judge(CHECK)
    long, wanted = (verdict.value or 0.0) * now, shortest(cost, rate)
    numbers = (
        Number("trigger now", now, "seconds", "trigger.processing_time"),
        Number("batch", long, "seconds", "as the check batch_longer_than_trigger judges the newest batches"),
        Number("fixed cost of a batch", cost.fixed, "seconds", cost.source),
        Number("cost of a row", cost.per_row, "seconds", cost.source),
        Number("rows a second", rate, "rows", "rows read over the time that the batches span"),
        Number("shortest trigger", wanted, "seconds", f"fixed / ({BUSY} - rows a second x cost of a row)"),
    )
    alarm = verdict.status in (Status.WARNING, Status.CRITICAL)
    if not alarm and long <= BUSY * now:
        return Recommendation(topic=TOPIC, status=Decision.KEEP, says=_fits(now, long, wanted), numbers=numbers)
    if alarm and math.isinf(wanted):
        says = (
            f"rows come at {rate:,.0f} a second and one takes {format_duration(cost.per_row)}: no trigger is long "
            "enough. Give it more cores, or fewer rows."
        )
        return Recommendation(topic=TOPIC, status=Decision.CHANGE, says=says, numbers=numbers)
    value = math.ceil(max(long / BUSY, wanted if math.isfinite(wanted) else 0.0))
    says = (
        f"{_too_long(now, long, verdict, alarm)}: take {value} s. Or keep the trigger, and give the stream more cores "
        "or fewer rows in each batch."
    )
    settings = {"trigger.processing_time": f"{value} {'second' if value == 1 else 'seconds'}"}
    return Recommendation(
        topic=TOPIC,
        status=Decision.CHANGE,
        says=says,
        numbers=numbers,
        settings=settings,
        costs=costs(cost, rate, max(now, long), value),
    )


def _fits(now: float, long: float, wanted: float) -> str:
    if not now:
        return "each batch starts when the previous one ends: there is no trigger to set."
    shorter = f"; one of {format_duration(wanted)} would do as well" if wanted < now / 2 else ""
    return (
        f"the newest batches take {format_duration(long)} of the {format_duration(now)} between two: leave it{shorter}."
    )


def _too_long(now: float, long: float, verdict: Verdict, alarm: bool) -> str:
    if alarm:
        return (
            f"the newest batches take {format_duration(long)}, longer than the trigger of {format_duration(now)} (the "
            f"check {CHECK.name} is {verdict.status})"
        )
    return (
        f"the newest batches take {format_duration(long)}, more than {BUSY:.0%} of the trigger of "
        f"{format_duration(now)}, so that a slow one delays the next"
    )
