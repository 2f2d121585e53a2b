"""The repository of drill schedules: since when Airflow has been running each drill on its schedule."""

from collections.abc import Container, Mapping

from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Repository, insert
from streamwarden.adapters.store.tables import drill_schedules


class SqlDrillScheduleRepository(Repository):
    """Keeps one row for each drill that is scheduled and not paused."""

    def follow(self, schedules: Mapping[str, str], now: float, *, keep: Container[str] = ()) -> None:
        """Record the drills that are scheduled and not paused now: drill -> schedule. A new one counts from `now`.

        Args:
            now: Unix seconds. A drill whose schedule changed counts from then too.
            keep: drills that stay as they are, because their files cannot be read. All others are forgotten.
        """
        stored = self._all()
        same = {drill for drill, schedule in schedules.items() if drill in stored and stored[drill][0] == schedule}
        gone = [drill for drill in stored if drill not in same and drill not in keep]
        new = [
            {"drill": drill, "schedule": text, "since": now} for drill, text in schedules.items() if drill not in same
        ]
        if not gone and not new:
            return

        def put(connection: Connection) -> None:
            connection.execute(drill_schedules.delete().where(drill_schedules.c.drill.in_(gone)))
            if new:
                # Another process may have recorded the same drill since it was read: the older record counts.
                statement = insert(connection, drill_schedules).on_conflict_do_nothing(index_elements=["drill"])
                connection.execute(statement, new)

        self._database.write(put)

    def since(self) -> Mapping[str, float]:
        """Drill -> when it was first seen scheduled and not paused, Unix seconds."""
        return {drill: since for drill, (_, since) in self._all().items()}

    def _all(self) -> dict[str, tuple[str, float]]:
        rows = self._rows(drill_schedules.select())
        return {row.drill: (row.schedule, row.since) for row in rows}
