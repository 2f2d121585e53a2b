"""The oracle of `flight_dedup`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: which flights were reported? Each is wanted once, as it was first reported. A flight may be forgotten, and
is a new one if it comes again, when the newest scheduled departure has moved twelve hours beyond its own: six by which
reports may be late, and six to remember it. What comes more than six hours late is left out. So is a line that is no
flight: not a JSON object, a field of another type, no id or time, or a time more than a day ahead of its file.
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

_HOUR: Final = 3_600_000
_VALUES: Final = ("origin", "carrier", "dest", "tailnum", "departed_at", "dep_delay")


def _values(report: Flight) -> Values:
    departed = None if report.departed_at is None else moment(report.departed_at)
    return report.origin, report.carrier, report.dest, report.tail, departed, report.delay


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
    """The output of a run of `flight_dedup` over `inputs`."""
    run = replay_input(inputs, facts, decode=flight, at=lambda report: report.at, delay=6 * _HOUR, not_after=24 * _HOUR)
    found = firsts(run.steps(), identity=lambda report: report.id, at=lambda report: report.at, delay=6 * _HOUR)
    return once_each(
        found,
        run,
        facts,
        # The id alone is no key: a flight that was forgotten may come again, with a later time.
        key_columns=("flight_id", "event_time"),
        value_columns=_VALUES,
        types=_TYPES,
        complete=True,
        row=lambda report: ((report.id, moment(report.at)), _values(report)),
        what="reports of one flight",
        name=lambda report: report.id,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "repeats": len(found.repeats),
            "late_rows": len(found.late),
            "remembered": len(found.remembered),
            "final_watermark": str(moment(run.final_mark)),
        },
    )
