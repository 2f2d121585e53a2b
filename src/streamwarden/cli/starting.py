"""Waits until every query of a stream runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamwarden.errors import ProcessError
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.services.analysis.linting import job_facts
from streamwarden.units import format_duration

if TYPE_CHECKING:
    from streamwarden.services.fleet.exit_recorder import Observation
    from streamwarden.services.workspace import Workspace
    from streamwarden.stream import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The queries that a driver has started, and those that it should start.

    Args:
        declared: names of all that should run; empty: they are counted only.
        count: how many should run, as far as anybody knows.
    """

    started: tuple[QueryRecord, ...]
    declared: tuple[str, ...] = ()
    count: int = 1

    @property
    def running(self) -> tuple[QueryRecord, ...]:
        """Those that run, or have processed all their input."""
        return tuple(each for each in self.started if each.error is None)

    @property
    def failed(self) -> tuple[QueryRecord, ...]:
        return tuple(each for each in self.started if each.error is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Declared, and not started yet."""
        names = {each.name for each in self.started}
        return tuple(name for name in self.declared if name not in names)

    @property
    def complete(self) -> bool:
        return not self.missing and len(self.started) >= self.count


def starts_of(spec: StreamSpec, known: Sequence[QueryRecord], driver_id: str, count: int | None) -> Starts:
    """What `driver_id` has started. Pure.

    Args:
        known: the records of the stream's queries.
        count: how many queries the job starts, by its text; None where the text does not say.
    """
    declared = tuple(spec.queries)
    return Starts(
        started=tuple(each for each in known if each.driver_id == driver_id),
        declared=declared,
        count=len(declared) or count or 1,
    )


def await_queries(space: Workspace, spec: StreamSpec, driver_id: str, within: float) -> tuple[Observation, Starts]:
    """Wait until the driver has started all its queries, or has ended. Raises ProcessError after `within` seconds."""
    count = job_facts(spec).queries

    def current() -> Starts:
        return starts_of(spec, space.store.queries.of(spec.name), driver_id, count)

    try:
        seen = space.fleet.wait(driver_id, timeout=within, until=lambda seen: not seen.alive or current().complete)
    except ProcessError as error:
        starts = current()
        if not starts.started:
            raise
        raise not_all(starts, within, error) from error
    return seen, current()


def not_all(starts: Starts, within: float, error: ProcessError) -> ProcessError:
    """The error for a driver that has started some of its queries only."""
    absent = f"; not started: {', '.join(starts.missing)}" if starts.missing else ""
    return ProcessError(
        f"{len(starts.started)} of {starts.count} queries started within {format_duration(within)}: "
        f"{', '.join(each.name or each.query_id for each in starts.started)}{absent}",
        expected="every query that the stream's file declares" if starts.declared else "every query in the job's text",
        where=error.where,
        next_step=f"{error.next_step}; the driver continues: `streamwarden status` shows its queries",
    )
