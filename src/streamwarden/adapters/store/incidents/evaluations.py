"""The evaluation repository: when the streams were last judged, by each kind of process on each host."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.tables import evaluations
from streamwarden.health.evaluations import EvaluationRecord, Evaluator

_KEEP: Final = 7 * 86400.0
"""Seconds after which the row of a host that judges no more is removed: a new container has a new host name."""


class SqlEvaluationRepository(Repository):
    """Keeps the newest evaluation of each kind of process and host."""

    def record(self, evaluation: EvaluationRecord) -> None:
        """Keep this evaluation as the newest of its kind of process and host."""
        row = {**asdict(evaluation), "evaluator": evaluation.evaluator.value}

        def put(connection: Connection) -> None:
            upsert(connection, evaluations, [row])
            connection.execute(evaluations.delete().where(evaluations.c.at < evaluation.at - _KEEP))

        self._database.write(put)

    def all(self) -> Sequence[EvaluationRecord]:
        """The newest evaluation of each kind of process and host, newest first."""
        query = evaluations.select().order_by(evaluations.c.at.desc())
        rows = self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(EvaluationRecord(**{**row, "evaluator": Evaluator(row["evaluator"])}) for row in rows)
