"""The result of a drill in one plain sentence, for a reader who knows neither Spark nor drills. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from streamwarden.drills.records.exercised import describe_not_exercised
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.twin import describe_unproven
from streamwarden.drills.reporting.outcome import find_deviations, oracles_disagree, unbalanced
from streamwarden.drills.state import RunState
from streamwarden.units import format_list
from streamwarden.verification.reconciliation import Reconciliation

_NUMBERS: Final = {3: "three", 4: "four", 5: "five"}


def sentence(run: DrillRun, state: RunState) -> str:
    """The drill's finding on the stream; if it has none, why."""
    if run.status is DrillStatus.RUNNING:
        return "The drill is still running."
    if run.deviated is None:
        word = "broke nothing" if run.status is DrillStatus.ABORTED else "failed itself"
        return f"The drill {word} and says nothing about the stream: {run.reason}."
    event = " followed by ".join(map(_event, groupby(fault.chosen.event for fault in state.fault_specs)))
    claims = _deviation(event, state) if run.deviated else _success(event, state)
    failed = [] if run.status is DrillStatus.COMPLETED else ["the drill itself did not complete"]
    unproven = [*describe_unproven(state.twin), *state.outside.unproven()]
    return f"{'; '.join([*claims, *_struck(state), *unproven, *failed, *_proof(run, state)])}."


def _event(repeated: tuple[str, Iterator[str]]) -> str:
    """`a crash in mid-batch, three times`."""
    event, strikes = repeated
    count = len(list(strikes))
    times = {1: "", 2: ", twice"}.get(count, f", {_NUMBERS.get(count, count)} times")
    return f"{event}{times}{',' if times else ''}"


def _success(event: str, state: RunState) -> Iterator[str]:
    if any(result.refusal is not None for result in state.results):
        yield f"After {event} the stream stopped and reported it, as it must"
        yield "once the documented remediation was applied, it lost nothing else"
    else:
        yield f"{_capital(event)} loses nothing{_repeats(state)}{_where(state)}"
    yield from _back(state)


def _where(state: RunState) -> str:
    return " on the live stream" if state.live is not None else ""


def _repeats(state: RunState) -> str:
    """An at-least-once sink repeats records, which a reader drops by event id. A function that never got a batch again
    after it had written it may write it twice."""
    repeated = state.reconciliation.repeated if state.reconciliation is not None else None
    not_exercised = describe_not_exercised(state.not_exercised)
    if not repeated:
        return " and duplicates nothing" if not_exercised is None else f"; {not_exercised}"
    return f"; {repeated:,} records were written twice, and a reader drops them by their event id"


def _deviation(event: str, state: RunState) -> Iterator[str]:
    disagree = oracles_disagree(state)
    harm = "" if disagree else _harm(state.reconciliation)
    deviations = find_deviations(state)
    if harm:
        yield f"{_capital(event)} damages the output: {harm}"
        yield from _back(state)
        yield from deviations[1:]  # the first one says the same, with its numbers
        return
    if unbalanced(state) is not None:
        yield f"{_capital(event)} damages the output of the live stream: {'; '.join(deviations)}"
        return
    if own := _of_the_job(state):
        others = "; ".join(deviations[1:])
        lead = f"is not handled as it should be: {others}; and" if others else "was survived, but"
        yield f"{_capital(event)} {lead} {own}"
        yield from _back(state)
        if (not_exercised := describe_not_exercised(state.not_exercised)) is not None:
            yield not_exercised
        return
    counts = state.reconciliation
    refused = any(result.refusal is not None for result in state.results)
    unharmed = counts is not None and counts.exactly_once and not refused and not disagree
    lead = "loses nothing, but" if unharmed else "is not handled as it should be:"
    yield f"{_capital(event)} {lead} {'; '.join(deviations)}"


def _of_the_job(state: RunState) -> str:
    """What the job does to its rows without any fault: its twin, which nobody broke, wrote the same rows as the fork.
    Empty if the twin disagrees, or if there is none."""
    twin, counts = state.twin, state.reconciliation
    if twin is None or twin.alone or counts is None or not twin.outcome.exactly_once:
        return ""
    wrong = {kind: count for kind, count in counts.kinds.items() if count}
    if list(wrong) == ["lost"]:
        return f"the job itself loses rows: {counts.lost:,} of {counts.expected:,}"
    harm = _harm(counts)
    return harm and f"the job itself does not write what its oracle expects: {harm}"


def _harm(counts: Reconciliation | None) -> str:
    """`3 rows lost, 2 duplicated of 900`; empty if the rows are right or were not compared."""
    if counts is None:
        return ""
    parts = [f"{count:,} {kind}" for kind, count in counts.kinds.items() if count]
    return f"{', '.join(parts)} of {counts.expected:,} expected rows" if parts else ""


def _struck(state: RunState) -> Iterator[str]:
    """`killed 1.4 s into a batch of 2.0 s, while the sink wrote`, of each strike that cut a batch."""
    struck = [result.landed.struck for result in state.results if result.landed is not None]
    places = [batch.words for batch in struck if batch is not None]
    if places:
        yield f"killed {', and '.join(places)}"


def _back(state: RunState) -> Iterator[str]:
    """`the stream was back after 14 s`, or `after 14 s and 9.1 s` for two faults."""
    recoveries = (result.recovery.recovery_seconds for result in state.results if result.recovery is not None)
    after = [show_seconds(seconds) for seconds in recoveries if seconds is not None]
    if after:
        yield f"the stream was back after {format_list(after)}"


def _proof(run: DrillRun, state: RunState) -> Iterator[str]:
    day = datetime.fromtimestamp(run.ended_at or run.started_at, UTC)
    judged = state.audit or state.reconciliation
    records = f"{judged.records:,} input records" if judged is not None else "a drill"
    yield f"{'found' if run.deviated else 'proven'} on {records} on {day.day} {day:%B %Y}"


def show_seconds(seconds: float) -> str:
    """`14 s`; with a decimal below ten."""
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
