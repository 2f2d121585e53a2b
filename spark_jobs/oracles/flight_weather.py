"""The oracle of `flight_weather`: the same question answered by plain loops over the whole of both inputs.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: what was the weather at each flight's airport in the hour of its scheduled departure? A flight is wanted
once: with the observation of its hour if there is one, with nulls if there is none (or not at all, in an inner join).
The newest flight, less two hours, or the newest observation, less one, whichever is earlier: what comes later than
that is left out, on both sides. Flights of that very moment, or beyond it, are still waiting for their weather. So is
left out a line that is neither a flight nor an observation: not a JSON object, a field of another type, no id, time or
airport, or a flight more than a day, an observation more than an hour ahead of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import Side, moment, replay_sides, some
from streamwarden.verification.flights import Flight, flight
from streamwarden.verification.lines import fields, instant, number, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

_HOUR: Final = 3_600_000
_OBSERVATION: Final = {
    "observed_at": instant,
    "origin": text,
    "temp": number,
    "wind_speed": number,
    "precip": number,
    "visib": number,
}
_MEASURED: Final = ("temp", "wind_speed", "precip", "visib")


class Observation(NamedTuple):
    """The weather at an airport from `at` (Unix milliseconds) on, for an hour."""

    at: int
    origin: str
    values: Values


def located(line: str) -> Flight | None:
    """A flight from a known airport; None if the line is not one."""
    found = flight(line)
    return None if found is None or found.origin is None else found


def observation(line: str) -> Observation | None:
    """An observation; None if the line is not one."""
    found = fields(line, _OBSERVATION)
    if found is None:
        return None
    at, origin = found["observed_at"], found["origin"]
    if not (isinstance(at, int) and isinstance(origin, str)):
        return None
    return Observation(at, origin, tuple(found[name] for name in _MEASURED))


_TYPES: Final = {
    "flight_id": "STRING",
    "event_time": "TIMESTAMP",
    "origin": "STRING",
    "carrier": "STRING",
    "dep_delay": "INT",
    "observed_at": "TIMESTAMP",
    "temp": "DOUBLE",
    "wind_speed": "DOUBLE",
    "precip": "DOUBLE",
    "visib": "DOUBLE",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `flight_weather` over `inputs`, the files of both folders."""
    run = replay_sides(
        inputs,
        facts,
        {
            "flights": Side(decode=located, at=lambda row: row.at, delay=2 * _HOUR, not_after=24 * _HOUR),
            "weather": Side(decode=observation, at=lambda row: row.at, delay=_HOUR, not_after=_HOUR),
        },
    )
    flights: list[tuple[int, Flight]] = []
    observed: dict[tuple[str, int], list[tuple[int, Observation]]] = {}
    late_flights = late_observations = 0
    for step in run.steps():
        for row in step.rows:
            if isinstance(row, Flight):
                late_flights += row.at <= step.closed
                if row.at > step.closed:
                    flights.append((step.batch, row))
            else:
                late_observations += row.at <= step.closed
                if row.at > step.closed:
                    observed.setdefault((row.origin, row.at // _HOUR), []).append((step.batch, row))
    outer = "join=inner" not in facts.args
    rows: dict[Key, Values] = {}
    again: list[str] = []
    counted = {"emitted": 0, "emitted_before": 0, "open": 0}
    nulls = 0
    for batch, leaving in flights:
        hour = leaving.at // _HOUR
        near = [*observed.get((str(leaving.origin), hour), ()), *observed.get((str(leaving.origin), hour - 1), ())]
        found = [(max(batch, came), each) for came, each in near if each.at <= leaving.at < each.at + _HOUR]
        answers: list[tuple[int | None, Values]] = [(when, (moment(each.at), *each.values)) for when, each in found]
        if not found and outer:
            when = next((at for at in sorted(run.marks) if at >= batch and leaving.at < run.marks[at]), None)
            answers = [(when, (None, *(None for _ in _MEASURED)))]
        for when, weather in answers:
            if when is None or when > run.committed:
                counted["open"] += 1
            elif when < facts.first:
                counted["emitted_before"] += 1
            else:
                counted["emitted"] += 1
                nulls += weather[0] is None
                if (leaving.id,) in rows:
                    again.append(leaving.id)
                rows[(leaving.id,)] = (moment(leaving.at), leaving.origin, leaving.carrier, leaving.delay, *weather)
    return Expectation(
        key_columns=("flight_id",),
        value_columns=("event_time", "origin", "carrier", "dep_delay", "observed_at", *_MEASURED),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=sum(counted.values()) + late_flights,
            dropped=late_flights,
            **counted,
        ),
        problems=(*run.problems, *some("flight that is owed more than one row", again)),
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "late_flights": late_flights,
            "late_observations": late_observations,
            "without_weather": nulls,
            "final_watermark": str(moment(run.final_mark)),
        },
    )
