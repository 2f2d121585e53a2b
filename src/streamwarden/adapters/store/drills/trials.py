"""The repository of trials: what each run of a drill has shown about each of its faults, in small rows.

A run's facts are tens of kilobytes. Its trials are what a list over thousands of runs reads instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.tables import trials

if TYPE_CHECKING:
    from streamwarden.drills.records.journal import DrillRun
    from streamwarden.drills.reporting.resilience import Trial

RUNS: Final = 1000
"""Newest runs of each drill on each stream that are read."""


class SqlTrialRepository:
    """Reads trials. `SqlJournalRepository.save` writes them together with their run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self, stream: str | None = None, runs: int = RUNS) -> Sequence[Trial]:
        """The trials of the newest runs of each drill on each stream, newest first.

        Args:
            stream: its trials alone.
            runs: of each drill on each stream.
        """
        query = newest_trials(stream, runs)
        rows = self._database.read(lambda connection: connection.execute(query).all())
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
        {
            "run_id": trial.run_id,
            "number": trial.number,
            "drill": trial.drill,
            "stream": trial.stream,
            "fault": trial.fault,
            "variant": trial.variant,
            "started_at": trial.at,
            "verdict": trial.verdict,
            "recovery_seconds": trial.recovery,
            "measured_seconds": trial.estimates[0].measured if trial.estimates else None,
            "phase": trial.phase,
            "predicted": {estimate.formula: estimate.predicted for estimate in trial.estimates},
        }
        for trial in found
    ]


def _trial(row: Row[Any]) -> Trial:
    from streamwarden.drills.reporting.resilience import Estimate, Trial

    return Trial(
        run_id=row.run_id,
        number=row.number,
        drill=row.drill,
        stream=row.stream,
        fault=row.fault,
        variant=row.variant,
        at=row.started_at,
        verdict=row.verdict,
        recovery=row.recovery_seconds,
        phase=row.phase,
        estimates=tuple(
            Estimate(formula=formula, predicted=seconds, measured=row.measured_seconds)
            for formula, seconds in row.predicted.items()
        ),
    )
