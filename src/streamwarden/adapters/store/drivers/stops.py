"""The stop repository: requests that a driver stops, each with its author, and the desired state of each stream."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.process_columns import to_record
from streamwarden.adapters.store.tables import desired_states, stop_requests
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState, StopRequest


class SqlStopRepository(Repository):
    """Implements `lifecycle.stop.StopRepository`."""

    def request(self, request: StopRequest) -> None:
        """Request a stop. Every request is kept, the latest counts: a second one may shorten or lengthen the wait."""
        values = asdict(request)

        def ask(connection: Connection) -> None:
            same = [stop_requests.c[name] == value for name, value in values.items()]
            if connection.execute(stop_requests.select().where(*same)).first() is None:
                connection.execute(stop_requests.insert().values(values))

        self._database.write(ask)

    def pending(self, driver_id: str) -> StopRequest | None:
        """The latest request for this driver, also after it ended: the request says whether a restart was meant."""
        newest = stop_requests.c.requested_at.desc(), stop_requests.c.id.desc()
        query = stop_requests.select().where(stop_requests.c.driver_id == driver_id).order_by(*newest).limit(1)
        row = self._row(query)
        return None if row is None else to_record(StopRequest, row)

    def set_desired(self, state: DesiredState) -> None:
        row = {**asdict(state), "desired": state.desired.value}
        self._database.write(lambda connection: upsert(connection, desired_states, [row]))

    def wanted_stopped(self) -> frozenset[str]:
        """The streams whose last desired state is stopped."""
        query = sa.select(desired_states.c.stream).where(desired_states.c.desired == Desired.STOPPED.value)
        return frozenset(self._database.read(lambda connection: connection.execute(query).scalars().all()))

    def desired(self, stream: str) -> DesiredState | None:
        """The last desired state of `stream`; None if it was never set."""
        return self.every_desired([stream]).get(stream)

    def every_desired(self, streams: Collection[str]) -> dict[str, DesiredState]:
        """`desired` of many streams in one query; a stream whose state was never set is left out."""
        query = desired_states.select().where(desired_states.c.stream.in_(streams))
        rows = self._rows(query)
        return {row.stream: _desired(row) for row in rows}


def _desired(row: Row[Any]) -> DesiredState:
    return to_record(DesiredState, row, desired=Desired(row.desired))
