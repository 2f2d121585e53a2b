"""The batch repository: everything known about each micro-batch, from Spark's reports and the checkpoint's logs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.history.compact_rows import COMPACT, compact_batches, newest_of_stream
from streamwarden.adapters.store.history.merging import BatchRow, StoredReport, from_progress, merge, to_batch
from streamwarden.adapters.store.history.rollup import Rolled
from streamwarden.adapters.store.history.rollup_hours import horizon, mark_unrolled
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import batches, hourly, state_operators
from streamwarden.health.window import TAKEN_BACK, Batch
from streamwarden.progress import OperatorProgress, Progress

_CHUNK: Final = 200
"""Batches a transaction when many are loaded: the lock is free again after some 50 ms."""

_TOTALS: Final = (Rolled.BATCHES, Rolled.ROWS, Rolled.MALFORMED)
_BATCH: Final = batches.select().where(
    batches.c.stream == sa.bindparam("of_stream"),
    batches.c.query_id == sa.bindparam("of_query"),
    batches.c.batch_id == sa.bindparam("of_batch"),
)
_HELD_BATCH: Final = _BATCH.with_for_update()
_DONE: Final = sa.or_(batches.c.executed, batches.c.committed_at.is_not(None))
STANDS: Final = batches.c.query_id.not_like(f"%{TAKEN_BACK}%")
"""Batches that no restore took back."""
_OLDEST: Final = batches.alias("oldest")
_FIRST_AT: Final = sa.select(sa.func.min(_OLDEST.c.at)).where(_OLDEST.c.stream == batches.c.stream).scalar_subquery()
_INSERT_OPERATORS: Final = state_operators.insert()
_REPORTED: Final = tuple(column.name for column in fields(StoredReport))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Totals of a stream since its first batch, including the time that only the roll-ups still cover.

    Args:
        batches: committed batches.
        rows: input rows of the batches that Spark reported; a batch that is only in the logs adds none.
        malformed: those of them that could not be used.
        unreported: raw batches whose report was lost.
        first_at, last_at: Unix seconds of the oldest and newest raw batch.
        last: the newest committed batch.
    """

    stream: str
    batches: int
    rows: int
    malformed: int
    unreported: int
    first_at: float | None
    last_at: float | None
    last: Batch | None


@dataclass(frozen=True, slots=True)
class Flow:
    """Input rows of some batches, and the seconds that these batches took together."""

    rows: int
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestBatch:
    """The newest committed batch of a stream.

    Args:
        at: when it was committed, or began if only its report is known; first_at: when the oldest batch that the store
            still has was. Unix seconds.
        seconds: how long it took; rows: what it read. None if its report was lost.
        watermark: of event time, in force, Unix seconds; None: there is none, or its report was lost.
    """

    batch_id: int
    at: float
    first_at: float
    seconds: float | None
    rows: int | None
    watermark: float | None = None


class SqlBatchRepository(Repository):
    """Keeps micro-batches. Each method is one transaction (`upsert_many`: a few) and raises StoreError.

    Upserts are idempotent, and reports and logs may arrive in any order. Anything older than the retention horizon is
    ignored, because the roll-ups have counted that time already.
    """

    def upsert_progress(
        self, stream: str, progress: Progress, planned_at: float | None = None, committed_at: float | None = None
    ) -> None:
        """Store Spark's report of one batch, and the times from its logs (see `upsert_logged`) if they are known."""
        row = replace(from_progress(stream, progress), planned_at=planned_at, committed_at=committed_at)
        self._database.write(lambda connection: _put_all(connection, [(row, progress.operators)]))

    def upsert_many(self, stream: str, reports: Iterable[Progress]) -> None:
        """Store many reports, a few hundred in each transaction."""
        todo = [(from_progress(stream, progress), progress.operators) for progress in reports]
        for start in range(0, len(todo), _CHUNK):
            chunk = todo[start : start + _CHUNK]
            self._database.write(lambda connection, chunk=chunk: _put_all(connection, chunk))  # type: ignore[misc]

    def upsert_logged(
        self, stream: str, query_id: str, batch_id: int, planned_at: float | None, committed_at: float | None
    ) -> None:
        """Store when `offsets/N` and `commits/N` were written; None if there is no such file."""
        row = BatchRow(
            stream=stream, query_id=query_id, batch_id=batch_id, planned_at=planned_at, committed_at=committed_at
        )
        self._database.write(lambda connection: _put_all(connection, [(row, ())]))

    def move(self, stream: str, query_id: str, to: str) -> int:
        """Move the batches of this query to another name; returns how many.

        Rows that exist under the new name already (read from the logs meanwhile) are replaced by Spark's reports. Hours
        that were rolled up long ago stay under the old name.
        """

        def rename(connection: Connection) -> int:
            of_query = batches.c.stream == stream, batches.c.query_id == query_id
            moved = connection.execute(sa.select(batches.c.batch_id, batches.c.at).where(*of_query)).all()
            ids = sa.select(batches.c.batch_id).where(*of_query)
            for table in (state_operators, batches):
                there = table.c.stream == to, table.c.query_id == query_id
                connection.execute(table.delete().where(*there, table.c.batch_id.in_(ids)))
            for table in (state_operators, batches):
                here = table.c.stream == stream, table.c.query_id == query_id
                connection.execute(table.update().where(*here).values(stream=to))
            mark_unrolled(connection, [(name, row.at) for row in moved for name in (stream, to)])
            return len(moved)

        return self._database.write(rename)

    def take_back(self, stream: str, query_id: str, after: int, stamp: str) -> int:
        """Keep the batches after `after` under another query id, because the stream was put back and gives their
        numbers again; returns how many. Charts and totals still have them.

        Args:
            stamp: names the restore.
        """
        taken = f"{query_id}{TAKEN_BACK}{stamp}"

        def rename(connection: Connection) -> int:
            changed = 0
            for table in (state_operators, batches):
                later = table.c.stream == stream, table.c.query_id == query_id, table.c.batch_id > after
                changed = connection.execute(table.update().where(*later).values(query_id=taken)).rowcount
            return changed

        return self._database.write(rename)

    def window(self, stream: str, limit: int = 300) -> tuple[Batch, ...]:
        """The newest `limit` batches of `stream`, oldest first, with whole reports."""
        newest = batches.c.at.desc(), batches.c.batch_id.desc()
        rows = self._rows(batches.select().where(batches.c.stream == stream).order_by(*newest).limit(limit))
        return tuple(to_batch(_read(row)) for row in reversed(rows))

    def windows(self, streams: Sequence[str], limit: int = 300) -> dict[str, tuple[Batch, ...]]:
        """`window` of many streams in one transaction, with compact reports."""
        query = newest_of_stream(limit)
        rows = self._database.read(
            lambda connection: {stream: connection.execute(query, {"of": stream}).all() for stream in streams}
        )
        return {stream: compact_batches(stream, reversed(rows[stream])) for stream in streams}

    def first_of_runs(self, stream: str, runs: Sequence[str]) -> dict[str, Progress]:
        """Run id -> report of its first batch, of those of `runs` that the store still has."""
        first_batches = batches.c.stream == stream, batches.c.run_id.in_(runs), batches.c.executed
        first = (
            sa.select(sa.func.min(batches.c.batch_id))
            .where(*first_batches)
            .group_by(batches.c.query_id, batches.c.run_id)
        )
        query = (
            batches.select().where(*first_batches, batches.c.batch_id.in_(first)).order_by(batches.c.batch_id.desc())
        )
        rows = self._rows(query)
        found = (to_batch(_read(row)).progress for row in rows)
        return {report.run_id: report for report in found if report is not None}

    def flows_since(self, streams: Collection[str], since: float) -> dict[str, Flow]:
        """The input of each stream's batches at or after `since`; a stream without such a batch is left out."""
        query = (
            sa.select(
                batches.c.stream,
                sa.func.sum(batches.c.rows).label("rows"),
                sa.func.sum(batches.c.duration_ms).label("busy_ms"),
            )
            .where(batches.c.stream.in_(streams), batches.c.at >= since, batches.c.executed)
            .group_by(batches.c.stream)
        )
        rows = self._rows(query)
        return {row.stream: Flow(rows=int(row.rows or 0), busy=float(row.busy_ms or 0) / 1000) for row in rows}

    def newest(self, streams: Collection[str]) -> dict[str, NewestBatch]:
        """The newest committed batch of each stream; a stream without one is left out.

        Each is found by an index: the cost does not grow with what is stored.
        """
        if not streams:
            return {}
        given = sa.values(sa.column("stream", sa.String), name="given").data([(stream,) for stream in streams]).cte()
        at = (
            sa.select(batches.c.at)
            .where(batches.c.stream == given.c.stream, _DONE, STANDS)
            .order_by(batches.c.at.desc())
            .limit(1)
            .scalar_subquery()
        )
        last = sa.select(given.c.stream, at.label("at")).cte("last")
        query = (
            sa.select(
                batches.c.stream,
                batches.c.batch_id,
                sa.func.coalesce(batches.c.committed_at, batches.c.started_at, batches.c.at).label("at"),
                batches.c.executed,
                batches.c.duration_ms,
                batches.c.rows,
                batches.c.watermark,
                _FIRST_AT.label("first_at"),
            )
            .join(last, sa.and_(batches.c.stream == last.c.stream, batches.c.at == last.c.at))
            .where(_DONE, STANDS)
        )
        rows: Sequence[Any] = self._rows(query)
        return {row.stream: _newest(row) for row in sorted(rows, key=attrgetter("batch_id"))}

    def sampled(self, stream: str, since: float, until: float, points: int) -> tuple[Batch, ...]:
        """At most `points` batches that ran from `since` to `until`, spread evenly, oldest first, with compact reports.

        Each is the newest of its stretch of time, found by an index: the cost does not grow with what is stored.
        """
        step = sa.literal((until - since) / points, sa.Double)
        newest = batches.alias("newest")
        number = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
        number = number.union_all(sa.select(number.c.n + 1).where(number.c.n < points))
        end = since + number.c.n * step
        at = (
            sa.select(newest.c.at)
            .where(newest.c.stream == stream, newest.c.executed, newest.c.at <= end, newest.c.at > end - step)
            .order_by(newest.c.at.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = (
            sa.select(*COMPACT)
            .where(batches.c.stream == stream, batches.c.executed)
            .where(batches.c.at.in_(sa.select(at.label("at")).select_from(number)))
            .order_by(batches.c.at, batches.c.batch_id)
        )
        return compact_batches(stream, self._rows(query))

    def chosen(self, wanted: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, tuple[Batch, ...]]:
        """Single batches of many streams in one transaction, by id, with compact reports; those that are not stored are
        left out.

        Args:
            wanted: stream -> (query id, batch ids).
        """
        query = sa.select(*COMPACT).where(
            batches.c.stream == sa.bindparam("of_stream"),
            batches.c.query_id == sa.bindparam("of_query"),
            batches.c.batch_id.in_(sa.bindparam("of_batches", expanding=True)),
        )

        def select(connection: Connection) -> dict[str, Sequence[Any]]:
            return {
                stream: connection.execute(
                    query.order_by(batches.c.batch_id),
                    {"of_stream": stream, "of_query": query_id, "of_batches": list(ids)},
                ).all()
                for stream, (query_id, ids) in wanted.items()
            }

        return {stream: compact_batches(stream, rows) for stream, rows in self._database.read(select).items()}

    def get(self, stream: str, query_id: str, batch_id: int) -> Batch | None:
        row = self._database.read(lambda connection: _find(connection, (stream, query_id, batch_id)))
        return None if row is None else to_batch(row)

    def last_committed(self, stream: str, query_id: str, since: float) -> int | None:
        """The newest batch whose commit was seen after `since`, Unix seconds."""
        query = sa.select(sa.func.max(batches.c.batch_id)).where(
            batches.c.stream == stream, batches.c.query_id == query_id, batches.c.committed_at > since
        )
        return self._database.read(lambda connection: connection.execute(query).scalar())

    def missing(self, stream: str, query_id: str, upto: int, since: int = 0) -> tuple[int, ...]:
        """Ids from `since` to `upto`, both included, that neither a report nor a commit accounts for."""
        query = sa.select(batches.c.batch_id).where(
            batches.c.stream == stream,
            batches.c.query_id == query_id,
            batches.c.batch_id.between(since, upto),
            _DONE,
        )
        stored = set(self._database.read(lambda connection: connection.execute(query).scalars().all()))
        return tuple(batch_id for batch_id in range(since, upto + 1) if batch_id not in stored)

    def operators(self, stream: str, since: float) -> tuple[Mapping[str, Any], ...]:
        """The rows of `state_operators` of batches at or after `since`, oldest first, each with its batch's `at`."""
        joined = batches.join(
            state_operators,
            sa.and_(*(batches.c[key] == state_operators.c[key] for key in ("stream", "query_id", "batch_id"))),
        )
        query = (
            sa.select(batches.c.at, state_operators)
            .select_from(joined)
            .where(batches.c.stream == stream, batches.c.at >= since)
            .order_by(batches.c.at, batches.c.batch_id, state_operators.c.operator)
        )
        return self._database.read(
            lambda connection: tuple(dict(row) for row in connection.execute(query).mappings().all())
        )

    def malformed(self, stream: str, query_id: str, first: int, last: int) -> int:
        """Malformed rows of the batches from `first` to `last`, both included, as far as they are kept one by one."""
        query = sa.select(sa.func.sum(batches.c.malformed)).where(
            batches.c.stream == stream,
            batches.c.query_id == query_id,
            batches.c.batch_id.between(first, last),
            batches.c.executed,
        )
        return int(self._database.read(lambda connection: connection.execute(query).scalar()) or 0)

    def summary(self, stream: str) -> Summary:
        """Totals of `stream` and its newest committed batch."""
        return self._database.read(lambda connection: _summarize(connection, stream))


def _put_all(connection: Connection, rows: Iterable[tuple[BatchRow, tuple[OperatorProgress, ...]]]) -> None:
    before = horizon(connection, hold=True)
    for row, operators in rows:
        stored = _find(connection, (row.stream, row.query_id, row.batch_id), lock=True)
        merged = row if stored is None else merge(stored, row)
        if merged == stored or merged.at < before or (stored is not None and stored.at < before):
            continue
        upsert(connection, batches, [_columns(merged)])
        if row.report is not None and merged.report == row.report:
            _put_operators(connection, row, operators, replaces=stored is not None)
        mark_unrolled(connection, [(row.stream, merged.at)] + ([(row.stream, stored.at)] if stored else []))


def _put_operators(
    connection: Connection, row: BatchRow, operators: tuple[OperatorProgress, ...], *, replaces: bool
) -> None:
    key = {"stream": row.stream, "query_id": row.query_id, "batch_id": row.batch_id}
    if replaces:
        same_operator = [state_operators.c[name] == value for name, value in key.items()]
        connection.execute(state_operators.delete().where(*same_operator))
    if operators:
        connection.execute(_INSERT_OPERATORS, [{**key, **_operator(operator)} for operator in operators])


def _operator(operator: OperatorProgress) -> dict[str, Any]:
    return to_columns(
        state_operators,
        operator,
        operator=operator.index,
        rows_dropped=operator.rows_dropped_by_watermark,
        memory_bytes=operator.memory_used_bytes,
        sst_bytes=operator.custom.get("rocksdbSstFileSize") or None,
    )


def _find(connection: Connection, key: tuple[str, str, int], *, lock: bool = False) -> BatchRow | None:
    names = dict(zip(("of_stream", "of_query", "of_batch"), key, strict=True))
    row = connection.execute(_HELD_BATCH if lock else _BATCH, names).one_or_none()
    return None if row is None else _read(row)


def _columns(row: BatchRow) -> dict[str, Any]:
    report = row.report
    reported = {name: report and getattr(report, name) for name in _REPORTED}
    reported["executed"] = report is not None and report.executed
    return to_columns(batches, row, at=row.at, origin=row.origin.value, **reported)


def _read(row: Row[Any]) -> BatchRow:
    return to_record(BatchRow, row, report=None if row.progress is None else to_record(StoredReport, row))


def _newest(row: Row[Any]) -> NewestBatch:
    return NewestBatch(
        batch_id=row.batch_id,
        at=row.at,
        first_at=row.first_at,
        seconds=row.duration_ms / 1000 if row.executed and row.duration_ms is not None else None,
        rows=row.rows if row.executed else None,
        watermark=row.watermark if row.executed else None,
    )


def _summarize(connection: Connection, stream: str) -> Summary:
    before = horizon(connection)
    raw = connection.execute(
        sa.select(
            sa.func.count().label("batches"),
            sa.func.sum(sa.case((batches.c.executed, batches.c.rows), else_=0)).label("rows"),
            sa.func.sum(sa.case((batches.c.executed, batches.c.malformed), else_=0)).label("malformed"),
            sa.func.sum(sa.case((batches.c.executed, 0), else_=1)).label("unreported"),
            sa.func.min(batches.c.at).label("first_at"),
            sa.func.max(batches.c.at).label("last_at"),
        ).where(batches.c.stream == stream, batches.c.at >= before, _DONE)
    ).one()
    old = connection.execute(
        sa.select(hourly.c.name, sa.func.sum(hourly.c.total).label("total"))
        .where(hourly.c.stream == stream, hourly.c.hour < before, hourly.c.name.in_(_TOTALS))
        .group_by(hourly.c.name)
    )
    totals = {row.name: int(row.total) for row in old}
    newest = batches.select().where(batches.c.stream == stream, _DONE, STANDS).order_by(batches.c.at.desc()).limit(1)
    last = connection.execute(newest).one_or_none()
    return Summary(
        stream=stream,
        batches=raw.batches + totals.get(Rolled.BATCHES, 0),
        rows=int(raw.rows or 0) + totals.get(Rolled.ROWS, 0),
        malformed=int(raw.malformed or 0) + totals.get(Rolled.MALFORMED, 0),
        unreported=int(raw.unreported or 0),
        first_at=raw.first_at,
        last_at=raw.last_at,
        last=None if last is None else to_batch(_read(last)),
    )
