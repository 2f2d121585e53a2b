"""The oracle of `flight_dedup_unbounded`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: which flights were ever reported? Each is wanted once, as it was first reported. A line that is no flight
is left out: no JSON object, a field of another type, no id or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.lines import fields, instant, integer, text
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.reconciliation import Values
from streamwarden.verification.repeats import firsts, once_each

_FIELDS: Final = {
    "flight_id": text,
    "event_time": instant,
    "origin": text,
    "carrier": text,
    "dest": text,
    "tailnum": text,
    "departed_at": instant,
    "dep_delay": integer,
}
_VALUES: Final = ("event_time", "origin", "carrier", "dest", "tailnum", "departed_at", "dep_delay")


class Flight(NamedTuple):
    """A report of a flight; `at` in Unix milliseconds."""

    id: str
    at: int
    values: Values


def decode(line: str) -> Flight | None:
    """A flight; None if the line is none."""
    found = fields(line, _FIELDS)
    if found is None:
        return None
    who, at, departed = found["flight_id"], found["event_time"], found["departed_at"]
    if not (isinstance(who, str) and isinstance(at, int)):
        return None
    found["event_time"] = moment(at)
    found["departed_at"] = moment(departed) if isinstance(departed, int) else None
    return Flight(who, at, tuple(found[name] for name in _VALUES))


_TYPES: Final = {
    "flight_id": "STRING",
    "event_time": "TIMESTAMP",
    "origin": "STRING",
    "carrier": "STRING",
    "dest": "STRING",
    "tailnum": "STRING",
    "departed_at": "TIMESTAMP",
    "dep_delay": "INT",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `flight_dedup_unbounded` over `inputs`."""
    run = replay_input(inputs, facts, decode=decode, at=lambda flight: flight.at, delay=None)
    found = firsts(run.steps(), identity=lambda flight: flight.id, at=lambda flight: flight.at, delay=None)
    return once_each(
        found,
        run,
        facts,
        key_columns=("flight_id",),
        value_columns=_VALUES,
        types=_TYPES,
        complete=True,
        row=lambda flight: ((flight.id,), flight.values),
        what="reports of one flight",
        name=lambda flight: flight.id,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "repeats": len(found.repeats),
            "remembered": len(found.remembered),
        },
    )
