"""The driver repository: one row for each driver, from its launch to its recorded exit, and its events."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, insert
from streamwarden.adapters.store.process_columns import process_columns, read_process, to_columns, to_record
from streamwarden.adapters.store.sanitize import to_json
from streamwarden.adapters.store.tables import driver_events, drivers
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitRecord, ProcessIdentity


class SqlDriverRepository(Repository):
    """Implements `lifecycle.driver.DriverRepository`. All writes are idempotent; the first recorded exit wins.

    A write about a driver that was never launched raises StoreError: it would have no stream to belong to.
    """

    def launched(self, record: DriverRecord) -> None:
        """Record a launch. A driver that is recorded already stays as it is."""
        row = to_columns(drivers, record, **process_columns(record.process), **_exit_columns(record.exit))
        self._insert_once(drivers, row, key="driver_id")

    def bound(self, driver_id: str, process: ProcessIdentity) -> None:
        """Record the driver's process."""
        self._update(driver_id, process_columns(process))

    def started(self, driver_id: str, query_id: str, run_id: str, at: float) -> None:
        """Record that the driver's query runs."""
        self._update(driver_id, {"query_id": query_id, "run_id": run_id, "started_at": at})

    def exited(self, driver_id: str, exit: ExitRecord) -> None:
        """Record how the driver ended. An exit that is recorded already stays as it is."""
        self._update(driver_id, _exit_columns(exit), unless_exited=True)

    def event(self, event: DriverEvent) -> None:
        """Record an event. Recording the same event again changes nothing."""
        content = to_json([event.driver_id, event.at, event.kind, sorted(event.detail.items())])
        row = to_columns(driver_events, event, digest=hashlib.sha256(content.encode()).hexdigest())
        self._insert_once(driver_events, row, key="digest")

    def get(self, driver_id: str) -> DriverRecord | None:
        return self._newest(drivers.c.driver_id == driver_id)

    def ended(self, driver_ids: Collection[str]) -> frozenset[str]:
        """Those of these drivers whose exit is recorded."""
        if not driver_ids:
            return frozenset()
        query = sa.select(drivers.c.driver_id).where(
            drivers.c.driver_id.in_(driver_ids), drivers.c.exit_kind.is_not(None)
        )
        return frozenset(self._database.read(lambda connection: connection.execute(query).scalars().all()))

    def latest(self, stream: str) -> DriverRecord | None:
        """The driver of `stream` that was launched last."""
        return self._newest(drivers.c.stream == stream)

    def before(self, driver: DriverRecord) -> DriverRecord | None:
        """The driver of the same stream that was launched before this one."""
        return self._newest(drivers.c.stream == driver.stream, drivers.c.launched_at < driver.launched_at)

    def latests(self, streams: Collection[str]) -> dict[str, DriverRecord]:
        """`latest` of many streams in one query; a stream that never had a driver is left out."""
        newest = sa.select(drivers.c.stream, sa.func.max(drivers.c.launched_at).label("at")).group_by(drivers.c.stream)
        last = newest.subquery()
        query = drivers.select().join(last, (last.c.stream == drivers.c.stream) & (last.c.at == drivers.c.launched_at))
        rows = self._rows(query.order_by(drivers.c.token))
        return {row.stream: _read(row) for row in rows if row.stream in streams}

    def unfinished(self, without: Collection[str] = ()) -> tuple[DriverRecord, ...]:
        """The newest driver of each stream, declared or not, if no exit of it is recorded: it may be alive.

        Args:
            without: streams that are left out, which saves time.
        """
        query = sa.select(drivers.c.stream).where(drivers.c.exit_kind.is_(None)).distinct()
        streams = self._database.read(lambda connection: connection.execute(query).scalars().all())
        wanted = set(streams).difference(without)
        newest = self.latests(wanted) if wanted else {}
        return tuple(driver for _, driver in sorted(newest.items()) if driver.exit is None)

    def ran_since(self, since: float) -> tuple[str, ...]:
        """The streams with a driver that may have run at some time since then: it ended later, or no exit of it is
        recorded."""
        ran = drivers.c.exit_at.is_(None) | (drivers.c.exit_at >= since)
        query = sa.select(drivers.c.stream).where(ran).distinct().order_by(drivers.c.stream)
        return tuple(self._database.read(lambda connection: connection.execute(query).scalars().all()))

    def history(self, stream: str, since: float) -> Sequence[DriverRecord]:
        """The drivers of `stream` from the first that was launched or ended at or after `since`, oldest first."""
        return self.histories([stream], since)[stream]

    def histories(self, streams: Sequence[str], since: float) -> dict[str, tuple[DriverRecord, ...]]:
        """`history` of many streams at once."""
        recent = (drivers.c.launched_at >= since) | (drivers.c.exit_at >= since)
        if len(streams) == 1:
            recent &= drivers.c.stream == streams[0]
        first = sa.select(drivers.c.stream, sa.func.min(drivers.c.launched_at).label("at")).where(recent)
        begun = first.group_by(drivers.c.stream).subquery()
        query = (
            drivers.select()
            .join(begun, (begun.c.stream == drivers.c.stream) & (drivers.c.launched_at >= begun.c.at))
            .order_by(drivers.c.launched_at, drivers.c.token)
        )
        return self._grouped(query, streams, _read)

    def events(self, driver_id: str) -> Sequence[DriverEvent]:
        """The events of the driver, oldest first."""
        return self.events_of_all([driver_id])[driver_id]

    def events_of_all(self, driver_ids: Collection[str]) -> dict[str, tuple[DriverEvent, ...]]:
        """`events` of many drivers in one query."""
        order = driver_events.c.at, driver_events.c.id
        query = driver_events.select().where(driver_events.c.driver_id.in_(driver_ids)).order_by(*order)
        return self._grouped(query, driver_ids, _event, by="driver_id")

    def events_of(self, stream: str, kind: str) -> Sequence[DriverEvent]:
        """The events of this kind of all drivers of `stream`, oldest first."""
        query = (
            driver_events.select()
            .join(drivers, drivers.c.driver_id == driver_events.c.driver_id)
            .where(drivers.c.stream == stream, driver_events.c.kind == kind)
            .order_by(driver_events.c.at, driver_events.c.id)
        )
        return tuple(map(_event, self._rows(query)))

    def events_since(self, driver_ids: Collection[str], kind: str, since: float) -> Sequence[DriverEvent]:
        """The events of this kind of these drivers, at or after `since`, oldest first."""
        if not driver_ids:
            return ()
        of_drivers = driver_events.c.driver_id.in_(driver_ids), driver_events.c.at >= since
        query = driver_events.select().where(*of_drivers, driver_events.c.kind == kind)
        return tuple(map(_event, self._rows(query.order_by(driver_events.c.at, driver_events.c.id))))

    def _newest(self, *conditions: sa.ColumnElement[bool]) -> DriverRecord | None:
        query = drivers.select().where(*conditions).order_by(drivers.c.launched_at.desc(), drivers.c.token.desc())
        row = self._row(query.limit(1))
        return None if row is None else _read(row)

    def _insert_once(self, table: sa.Table, row: dict[str, Any], *, key: str) -> None:
        self._database.write(
            lambda connection: connection.execute(
                insert(connection, table).values(row).on_conflict_do_nothing(index_elements=[key])
            )
        )

    def _update(self, driver_id: str, values: dict[str, Any], *, unless_exited: bool = False) -> None:
        def change(connection: Connection) -> bool:
            stored = drivers.select().where(drivers.c.driver_id == driver_id).with_for_update()
            row = connection.execute(stored).one_or_none()
            if row is not None and not (unless_exited and row.exit_kind is not None):
                connection.execute(drivers.update().where(drivers.c.driver_id == driver_id).values(values))
            return row is not None

        if not self._database.write(change):
            raise self._database.failure(
                f"driver {driver_id} was never recorded as launched",
                expected="the launch first, then what happened to the driver",
                next_step="record its launch from the spec.json in its folder, then this again",
            )


def _event(row: Row[Any]) -> DriverEvent:
    return to_record(DriverEvent, row)


def _exit_columns(exit: ExitRecord | None) -> dict[str, Any]:
    if exit is None:
        return {"exit_kind": None, "exit_at": None, "exit": None}
    return {"exit_kind": exit.kind.value, "exit_at": exit.ended_at, "exit": asdict(exit)}


def _read(row: Row[Any]) -> DriverRecord:
    exit = None if row.exit is None else ExitRecord.from_document(row.exit)
    return to_record(DriverRecord, row, process=read_process(row), exit=exit)
