"""The delivery repository: what each channel was sent last of each incident, and which process may send next."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, insert
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import deliveries
from streamwarden.health.incidents.delivery import Delivery
from streamwarden.health.verdict import Status

_KEEP: Final = 90 * 86400.0
"""Seconds after which the deliveries of an incident are forgotten. An open incident is sent again long before."""


class SqlDeliveryRepository(Repository):
    """Keeps deliveries. A message is claimed before it is sent, so no two processes send it."""

    def of(self, channel: str) -> Mapping[str, Delivery]:
        """The deliveries of this channel by their subjects."""
        wanted = deliveries.select().where(deliveries.c.channel == channel)
        rows = self._rows(wanted)
        return {row.subject: _delivery(row) for row in rows}

    def claim(self, delivery: Delivery, status: Status, now: float) -> Delivery | None:
        """Atomically claim the next message about the subject of `delivery`; None if another process was faster.

        Args:
            delivery: as it was read, or a new one without attempts.
        """
        claimed = delivery.claimed(status, now)
        values = _columns(claimed)

        def take(connection: Connection) -> bool:
            connection.execute(_forgotten(now))
            if delivery.attempts == 0:
                # Not its row count: PostgreSQL's driver has none for an INSERT.
                return connection.execute(_first(connection, values)).first() is not None
            return connection.execute(_update(delivery).values(values)).rowcount == 1

        return claimed if self._database.write(take) else None

    def give_back(self, claimed: Delivery, before: Delivery, now: float) -> None:
        """Record that the message of `claimed` was refused: the channel is as it was `before`."""
        values = _columns(before.refused(claimed.attempts, now))
        self._execute(_update(claimed).values(values))


def _forgotten(now: float) -> sa.Delete:
    newest = sa.func.coalesce(deliveries.c.sent_at, deliveries.c.failed_at)
    return deliveries.delete().where(newest < now - _KEEP)


def _first(connection: Connection, values: Mapping[str, Any]) -> sa.sql.dml.ReturningInsert[tuple[str]]:
    new = insert(connection, deliveries).values(values)
    return new.on_conflict_do_nothing(index_elements=["subject", "channel"]).returning(deliveries.c.subject)


def _update(read: Delivery) -> sa.Update:
    """Changes the row if no process has claimed it since it was `read`."""
    of_channel = deliveries.c.subject == read.subject, deliveries.c.channel == read.channel
    return deliveries.update().where(*of_channel, deliveries.c.attempts == read.attempts)


def _columns(delivery: Delivery) -> dict[str, Any]:
    sent_status = delivery.sent_status and delivery.sent_status.value
    return to_columns(deliveries, delivery, sent_status=sent_status)


def _delivery(row: Row[Any]) -> Delivery:
    return to_record(Delivery, row, sent_status=None if row.sent_status is None else Status(row.sent_status))
