"""The repository of publications: up to which batch each stream's progress was published as an asset event."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.history.batches import STANDS
from streamwarden.adapters.store.tables import batches, publications
from streamwarden.lifecycle.publishing import NewBatches, Publication


class SqlPublicationRepository(Repository):
    """Keeps for each stream the last publication, and the one that is pending. Each method raises StoreError."""

    def all(self) -> tuple[Publication, ...]:
        """The last publication of each stream, and the pending ones."""
        rows = self._rows(publications.select())
        return tuple(Publication(**row._mapping) for row in rows)

    def propose(self, proposed: Collection[Publication]) -> None:
        """Keep these as pending; one that is pending for the same stream is replaced."""
        rows = [{name: getattr(publication, name) for name in publications.c.keys()} for publication in proposed]  # noqa: SIM118
        self._database.write(lambda connection: upsert(connection, publications, rows))

    def settle(self, streams: Collection[str]) -> None:
        """The pending publications of these streams were published: each is the last one of its stream now."""

        def put(connection: Connection) -> None:
            for stream in streams:
                of_stream = publications.c.stream == stream
                connection.execute(publications.delete().where(of_stream, publications.c.pending.is_(False)))
                connection.execute(publications.update().where(of_stream).values(pending=False))

        self._database.write(put)

    def withdraw(self, streams: Collection[str]) -> None:
        """The pending publications of these streams were never published: the ones before count again."""
        pending = publications.delete().where(publications.c.stream.in_(streams), publications.c.pending)
        self._execute(pending)

    def new_batches(self, stream: str, last: Publication | None) -> NewBatches | None:
        """The batches that were committed since `last`, None if there are none.

        Batches of the same query count by their ids, so that a batch that a restored checkpoint repeats is not new.
        Those of another query (a new checkpoint) count by their time.
        """
        new = [batches.c.stream == stream, STANDS, sa.or_(batches.c.executed, batches.c.committed_at.is_not(None))]
        if last is not None:
            same = batches.c.query_id == last.query_id
            new.append(
                sa.or_(
                    sa.and_(same, batches.c.batch_id > last.batch_id),
                    sa.and_(sa.not_(same), batches.c.at > last.batch_at),
                )
            )

        def read(connection: Connection) -> tuple[Row[Any] | None, Row[Any]]:
            newest = batches.select().where(*new).order_by(batches.c.at.desc(), batches.c.batch_id.desc()).limit(1)
            totals = sa.select(
                sa.func.count().label("batches"),
                sa.func.sum(sa.case((batches.c.executed, batches.c.rows), else_=0)).label("rows"),
                sa.func.sum(sa.case((batches.c.executed, 0), else_=1)).label("unreported"),
            ).where(*new)
            return connection.execute(newest).one_or_none(), connection.execute(totals).one()

        row, totals = self._database.read(read)
        if row is None:
            return None
        return NewBatches(
            query_id=row.query_id,
            batch_id=row.batch_id,
            at=row.at,
            watermark=row.watermark,
            batches=totals.batches,
            rows=int(totals.rows or 0),
            unreported=int(totals.unreported or 0),
        )
