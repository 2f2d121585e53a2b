"""What ended the drivers of a stream, or one of its queries: equal errors as one line, the newest first. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.airflow.web.words.reason import of_exit
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.queries import QueryRecord

_NUMBERS: Final = re.compile(r"\d+")
"""Batches, offsets and times: two errors that differ in nothing else are equal."""
_NAMED: Final = re.compile(r"([\w.]+): (.+)", re.DOTALL)
"""`KeyError: orders.py:46: KeyError: 'gate'`: why a query ended, as its driver records it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """One error, and how often it was seen.

    Args:
        kind: Spark's error class, the exception's name, or how the process ended.
        place: `FILE:LINE` of the job, or empty: the first frame of its own.
        first_at, last_at: Unix seconds.
        driver_id: the last driver that it ended.
        query: the name of the query that it ended; empty: the driver's only query, or the driver itself.
        next_step: what a person should do, or empty.
    """

    kind: str
    text: str
    place: str = ""
    first_at: float
    last_at: float
    count: int = 1
    driver_id: str
    query: str = ""
    next_step: str = ""


def raised(drivers: Iterable[DriverRecord], queries: Iterable[QueryRecord] = ()) -> list[Raised]:
    """The errors of these drivers, and of queries that ended while their driver went on."""
    failed = {driver.driver_id: driver.exit for driver in drivers if driver.exit is not None and driver.exit.is_failure}
    seen = [_of_driver(driver_id, exit) for driver_id, exit in failed.items()]
    seen += [_of_query(query) for query in queries if query.name and query.error and query.driver_id not in failed]
    return sorted(_folded(seen), key=lambda one: -one.last_at)


def _of_driver(driver_id: str, exit: ExitRecord) -> Raised:
    kind = exit.error_class or (f"signal {exit.signal}" if exit.signal is not None else str(exit.kind))
    found = of_exit(exit)
    text = found.text if found.place or exit.kind is not ExitKind.FAILED else exit.message
    return Raised(
        kind=kind,
        text=_without(kind, text),
        place=found.place,
        first_at=exit.ended_at,
        last_at=exit.ended_at,
        driver_id=driver_id,
        next_step=exit.next_step,
    )


def _of_query(query: QueryRecord) -> Raised:
    """Of a query, `KIND: MESSAGE` is all that is kept."""
    at, error = query.ended_at or query.started_at, query.error or ""
    named = _NAMED.fullmatch(error)
    kind, message = named.groups() if named else ("", error)
    exit = ExitRecord(kind=ExitKind.FAILED, ended_at=at, error_class=kind or None, message=message)
    return replace(_of_driver(query.driver_id, exit), query=query.name)


def _without(kind: str, text: str) -> str:
    return text.removeprefix(f"{kind}: ").strip()


def _folded(seen: Sequence[Raised]) -> list[Raised]:
    """Each error as it was seen last. Errors of a class are equal if their place is; without a place, their text."""
    folds: dict[tuple[str, ...], Raised] = {}
    for one in sorted(seen, key=lambda each: each.last_at):
        key = (one.query, one.kind, one.place or _NUMBERS.sub("#", one.text))
        before = folds.get(key)
        folds[key] = one if before is None else replace(one, first_at=before.first_at, count=before.count + 1)
    return list(folds.values())
