"""The repository of trials: what each run of a drill has shown about each of its faults, in small rows.

A run's facts are tens of kilobytes. Its trials are what a list over thousands of runs reads instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import trials

if TYPE_CHECKING:
    from streamwarden.drills.records.journal import DrillRun
    from streamwarden.drills.reporting.resilience import Trial

RUNS: Final = 1000
"""Newest runs of each drill on each stream that are read."""


class SqlTrialRepository(Repository):
    """Reads trials. `SqlJournalRepository.save` writes them together with their run."""

    def newest(self, stream: str | None = None, runs: int = RUNS) -> Sequence[Trial]:
        """The trials of the newest runs of each drill on each stream, newest first.

        Args:
            stream: its trials alone.
            runs: of each drill on each stream.
        """
        query = newest_trials(stream, runs)
        rows = self._rows(query)
        return tuple(_trial(row) for row in rows)


def newest_trials(stream: str | None, runs: int) -> sa.Select[Any]:
    """The query of `SqlTrialRepository.newest`."""
    order = sa.func.dense_rank().over(
        partition_by=(trials.c.stream, trials.c.drill), order_by=trials.c.started_at.desc()
    )
    ranked = sa.select(trials, order.label("place"))
    selected = (ranked if stream is None else ranked.where(trials.c.stream == stream)).subquery()
    newest = sa.select(selected).where(selected.c.place <= runs)
    return newest.order_by(selected.c.started_at.desc(), selected.c.run_id, selected.c.number)


def put(connection: Connection, run: DrillRun) -> None:
    """Replace the trials of a run that has ended."""
    from streamwarden.drills.reporting.resilience import trials_of

    connection.execute(trials.delete().where(trials.c.run_id == run.run_id))
    if rows := _rows(trials_of(run)):
        connection.execute(trials.insert(), rows)


def _rows(found: Iterable[Trial]) -> list[dict[str, Any]]:
    """The trials as rows of the table."""
    return [
        to_columns(
            trials,
            trial,
            started_at=trial.at,
            recovery_seconds=trial.recovery,
            measured_seconds=trial.estimates[0].measured if trial.estimates else None,
            predicted={estimate.formula: estimate.predicted for estimate in trial.estimates},
        )
        for trial in found
    ]


def _trial(row: Row[Any]) -> Trial:
    from streamwarden.drills.reporting.resilience import Estimate, Trial

    estimates = tuple(
        Estimate(formula=formula, predicted=seconds, measured=row.measured_seconds)
        for formula, seconds in row.predicted.items()
    )
    return to_record(Trial, row, at=row.started_at, recovery=row.recovery_seconds, estimates=estimates)
