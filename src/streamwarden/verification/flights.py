"""One line of the catalogue's flights, as every oracle of a job that reads them takes it."""

from typing import Final, NamedTuple

from streamwarden.verification.lines import fields, instant, integer, text

__all__ = ["Flight", "flight"]

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


class Flight(NamedTuple):
    """A report of a flight. `at` is its scheduled departure; both times are in Unix milliseconds."""

    id: str
    at: int
    origin: str | None
    carrier: str | None
    dest: str | None
    tail: str | None
    departed_at: int | None
    delay: int | None


def flight(line: str) -> Flight | None:
    """A flight; None if the line is not a JSON object, has a field of another type, or lacks its id or its time."""
    values = fields(line, _FIELDS)
    if values is None or values["flight_id"] is None or values["event_time"] is None:
        return None
    return Flight(*values.values())  # type: ignore[arg-type]  # `fields` has checked each by its type above
