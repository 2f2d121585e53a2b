"""The oracle of `aircraft_rotations`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: a rotation of an aircraft is a run of its departures from New York in which each was scheduled at most
twelve hours after the one before. When did it begin, when was it over (twelve hours after its last departure), of how
many departures was it, and from where to where did they lead, in the order of their schedule (those of one minute in
the order of their ids)? Flights that never departed, or name no aircraft, are part of none. A departure is left out if
the newest scheduled one lies fourteen hours or more after it; one that comes when its rotation is already written
begins another. A line that is not a valid flight is left out: not a JSON object, a field of another type, no id, time
or airport, or a time more than a day ahead of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.flights import flight
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.sessions import SessionWindow, sessions

_HOUR: Final = 3_600_000


class Departure(NamedTuple):
    """A flight; `at` in Unix milliseconds, `group` its aircraft's tail number or None."""

    at: int
    id: str
    origin: str
    dest: str | None
    group: str | None
    departed: bool

    @property
    def counts(self) -> bool:
        """Whether it is part of a rotation."""
        return self.departed and self.group is not None


def decode(line: str) -> Departure | None:
    """A flight from a known airport; None if the line is not one."""
    found = flight(line)
    if found is None or found.origin is None:
        return None
    return Departure(found.at, found.id, found.origin, found.dest, found.tail, found.departed_at is not None)


def _legs(rotation: SessionWindow[Departure]) -> list[str]:
    ordered = sorted(rotation.rows, key=lambda flight: (flight.at, flight.id, flight.origin, flight.dest or ""))
    return [flight.origin if flight.dest is None else f"{flight.origin}-{flight.dest}" for flight in ordered]


_TYPES: Final = {
    "tailnum": "STRING",
    "rotation_start": "TIMESTAMP",
    "rotation_end": "TIMESTAMP",
    "flights": "BIGINT",
    "legs": "ARRAY<STRING>",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `aircraft_rotations` over `inputs`."""
    run = replay_input(
        inputs,
        facts,
        decode=decode,
        at=lambda flight: flight.at,
        delay=2 * _HOUR,
        not_after=24 * _HOUR,
        moves=lambda flight: flight.counts,
    )
    flights = [flight for rows in run.batches.values() for flight in rows]
    steps = (replace(step, rows=[flight for flight in step.rows if flight.counts]) for step in run.steps())
    found = sessions(steps, gap=12 * _HOUR)
    judged = [rotation for batch, rotation in found.emitted if batch >= facts.first]
    rows: dict[Key, Values] = {
        (each.group, moment(each.start)): (moment(each.end), len(each.rows), _legs(each)) for each in judged
    }
    emitted = sum(len(rotation.rows) for rotation in judged)
    return Expectation(
        key_columns=("tailnum", "rotation_start"),
        value_columns=("rotation_end", "flights", "legs"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=sum(flight.counts for flight in flights),
            dropped=len(found.late),
            emitted=emitted,
            emitted_before=sum(len(rotation.rows) for _, rotation in found.emitted) - emitted,
            open=sum(len(rotation.rows) for rotation in found.open),
        ),
        count_column="flights",
        problems=run.problems,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "cancelled": sum(not flight.departed for flight in flights),
            "unnamed": sum(flight.departed and flight.group is None for flight in flights),
            "late_rows": len(found.late),
            "final_watermark": str(moment(run.final_mark)),
        },
    )
