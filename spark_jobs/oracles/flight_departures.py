"""The oracle of `flight_departures`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: for each hour of scheduled departures that begins at a quarter of an hour, each origin and each carrier:
how many flights were scheduled, how many departed, how many were cancelled, and by how many minutes were they late in
sum (a flight that left early counts against it)? Reports that come after the newest scheduled time has moved two hours
beyond the end of an hour are left out of it. A line that is not a valid flight is left out too: not a JSON object, a
field of another type, or no id, time, origin or carrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamwarden.verification.batch_oracle import WindowedQuestion, answer
from streamwarden.verification.lines import instant, json_object
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.windows import Row, Sliding

_MINUTE: Final = 60_000
_INT: Final = range(-(2**31), 2**31)


def decode(line: str) -> Row | None:
    """A flight as a row; None if the line is not a valid flight."""
    flight = json_object(line)
    if flight is None:
        return None
    scheduled, departed = _instant(flight.get("event_time")), _instant(flight.get("departed_at"))
    origin, carrier, delay = flight.get("origin"), flight.get("carrier"), flight.get("dep_delay")
    if scheduled is None or (departed is None and flight.get("departed_at") is not None):
        return None
    if not (isinstance(flight.get("flight_id"), str) and isinstance(origin, str) and isinstance(carrier, str)):
        return None
    if delay is not None and (type(delay) is not int or delay not in _INT):
        return None
    left = int(departed is not None)
    return Row(scheduled, (origin, carrier), (1, left, 1 - left, delay or 0))


def _instant(value: object) -> int | None:
    """Unix milliseconds of an ISO-8601 instant with milliseconds and a zone; None for anything else."""
    try:
        return instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


_TYPES: Final = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "origin": "STRING",
    "carrier": "STRING",
    "flights": "BIGINT",
    "departures": "BIGINT",
    "cancellations": "BIGINT",
    "delay_minutes": "BIGINT",
}
"""The whole set of columns of the output."""

QUESTION: Final = WindowedQuestion(
    decode=decode,
    windows=Sliding(60 * _MINUTE, 15 * _MINUTE),
    delay=120 * _MINUTE,
    group_columns=("origin", "carrier"),
    amount_columns=("flights", "departures", "cancellations", "delay_minutes"),
    count_column="flights",
    types=_TYPES,
    complete=True,
)


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `flight_departures` over `inputs`."""
    return answer(QUESTION, inputs, facts)
