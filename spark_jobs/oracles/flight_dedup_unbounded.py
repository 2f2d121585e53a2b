"""The oracle of `flight_dedup_unbounded`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: which flights were ever reported? Each is wanted once, as it was first reported. A line that is not a
flight is left out: not a JSON object, a field of another type, no id or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.flights import Flight, flight
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.reconciliation import Values
from streamwarden.verification.repeats import firsts, once_each

_VALUES: Final = ("event_time", "origin", "carrier", "dest", "tailnum", "departed_at", "dep_delay")


def _values(report: Flight) -> Values:
    departed = None if report.departed_at is None else moment(report.departed_at)
    return moment(report.at), report.origin, report.carrier, report.dest, report.tail, departed, report.delay


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
    run = replay_input(inputs, facts, decode=flight, at=lambda report: report.at, delay=None)
    found = firsts(run.steps(), identity=lambda report: report.id, at=lambda report: report.at, delay=None)
    return once_each(
        found,
        run,
        facts,
        key_columns=("flight_id",),
        value_columns=_VALUES,
        types=_TYPES,
        complete=True,
        row=lambda report: ((report.id,), _values(report)),
        what="reports of one flight",
        name=lambda report: report.id,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "repeats": len(found.repeats),
            "remembered": len(found.remembered),
        },
    )
