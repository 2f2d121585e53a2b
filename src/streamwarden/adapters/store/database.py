"""One database: connections, transactions, and every failure as a StoreError with its place and the next step.

Only the migration creates a SQLite file (`create`): a store that was deleted under a running driver is an error, not a
new and empty store without any lease.
"""

import math
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, Row, make_url
from sqlalchemy.exc import DisconnectionError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import Pool, QueuePool

from streamwarden import disk
from streamwarden.adapters.store.explain import Explanation, explain
from streamwarden.errors import StoreError
from streamwarden.redaction import is_secret, redacted_text, remember

T = TypeVar("T")

_ATTEMPTS: Final = 5
"""A write that lost a race for a unique key reads and decides again; it then usually sees the winner."""

_REST: Final = 0.2
"""Seconds for which SQLite's lock stays free between two turns of a long work: it looks for the lock at least this
often."""

_UNREACHABLE: Final = {
    "tcp_user_timeout": 4000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
"""libpq's settings that end a call within five seconds if the network no longer carries packets to the server. Without
them the kernel tries for a quarter of an hour, in which a driver would neither renew its lease nor notice its loss."""

_FORGOTTEN: Final = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;"
    " SET tcp_user_timeout = 10000"
)
"""Ends, on the server, a session whose host has lost its power or its network: nobody tells the server, which would
keep the session for two hours, and with it the locks of a transaction, such as a renewal of a lease."""

_WRITE: Final = "streamwarden_write"
_INHERITED: list[Pool] = []
"""Pools of the parent process: kept, so that a forked child never closes (and so disturbs) the parent's connections."""


class StoreBusy(StoreError):
    """Another writer kept the store locked for longer than the busy timeout: the same call may work later."""


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns


class Database:
    """Runs work in transactions. Safe to share between threads, and to carry over a fork.

    Args:
        url: `sqlite:///PATH` or `postgresql+DRIVER://user:password@host/name`.
        busy_timeout: seconds to wait for another writer before StoreError.
    """

    def __init__(self, url: str, *, busy_timeout: float = 2.0) -> None:
        self._url = _parse(url)
        if self._url.password not in (self._url.username, self._url.database, self._url.host):
            remember(self._url.password)
        self.busy_timeout = busy_timeout
        self.where = safe_url(self._url)
        self.path = Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None
        try:
            self._engine = self._connect_lazily()
        except (SQLAlchemyError, ImportError) as error:
            raise self._translate(error) from error
        weakly = weakref.ref(self._engine)
        os.register_at_fork(after_in_child=lambda: _forget_connections(weakly()))

    def __repr__(self) -> str:
        return f"Database({self.where})"

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one read transaction. Raises StoreError."""
        return self._run(work, write=False)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one write transaction; on SQLite it is alone from its first statement on. Raises StoreError.

        `work` may run again when it lost a race for a unique key, so it must do nothing outside the database.
        """
        return self._run(work, write=True)

    def write_in_turns(self, work: Callable[[Connection], int]) -> int:
        """Run `work` in one write transaction after the other until it returns 0; returns the sum. Raises StoreError.

        SQLite does not queue those who wait for its lock: each looks again after some milliseconds. So after each turn
        the lock stays free for as long as the turn took, but not longer than `_REST`.
        """
        done = 0
        while True:
            began = time.monotonic()
            count = self.write(work)
            if not count:
                return done
            done += count
            if self.path is not None:
                time.sleep(min(_REST, time.monotonic() - began))

    def version(self) -> tuple[int, ...] | None:
        """Sizes and times of the files of SQLite; None for a server."""
        if self.path is None:
            return None
        return tuple(number for path in (self.path, Path(f"{self.path}-wal")) for number in _size_and_time(path))

    def create(self) -> None:
        """Make the SQLite file (and its folder) if it is not there, in WAL mode. Raises StoreError."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Private, as its log and its index then are. A file that exists keeps its mode: it is somebody's choice.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, disk.PRIVATE))
            connection = self._open_sqlite(self.path)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            raise self._translate(error) from error

    def close(self) -> None:
        self._engine.dispose()

    def failure(self, observed: str, *, expected: str = "", next_step: str = "") -> StoreError:
        """A StoreError at this database."""
        return StoreError(observed, expected=expected, where=f"store {self.where}", next_step=next_step)

    def _run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                options = {_WRITE: write}
                with self._engine.connect().execution_options(**options) as connection, connection.begin():
                    return work(connection)
            except IntegrityError as error:
                if attempt == _ATTEMPTS:
                    raise self._translate(error) from error
            except (SQLAlchemyError, sqlite3.Error) as error:
                raise self._translate(error) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _connect_lazily(self) -> Engine:
        if self.path is None:
            return self._connect_to_server()
        path = self.path
        engine = sa.create_engine(
            self._url,
            creator=lambda: self._open_sqlite(path),
            poolclass=QueuePool,
            pool_timeout=self.busy_timeout or 0.1,
            hide_parameters=True,
        )
        event.listen(engine, "connect", _remember_file(path))
        event.listen(engine, "checkout", _same_file(path))
        event.listen(engine, "begin", _begin)
        return engine

    def _connect_to_server(self) -> Engine:
        # 2 is the least that libpq takes
        bounds = {**_UNREACHABLE, "connect_timeout": max(2, math.ceil(self.busy_timeout))}
        is_libpq = self._url.get_driver_name().startswith("psycopg")
        engine = sa.create_engine(
            self._url,
            connect_args=bounds if is_libpq else {},
            pool_pre_ping=True,
            pool_timeout=self.busy_timeout or 0.1,
            hide_parameters=True,
        )
        wait = f"SET LOCAL lock_timeout = {max(1, round(self.busy_timeout * 1000))}"
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(wait))
        if is_libpq:
            event.listen(engine, "connect", _end_when_forgotten)
        return engine

    def _open_sqlite(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw",
            uri=True,
            timeout=self.busy_timeout,
            isolation_level=None,  # transactions are begun by _begin, so that a write is alone from the start
            check_same_thread=False,  # the pool hands a connection to one thread at a time
        )
        connection.execute("PRAGMA synchronous=NORMAL")  # in WAL mode a crash of the process loses nothing
        return connection

    def _translate(self, error: BaseException) -> StoreError:
        explained: Explanation = explain(error, path=self.path, busy_timeout=self.busy_timeout)
        observed = redacted_text(explained.observed)
        if self._url.password:  # however short it is
            observed = observed.replace(str(self._url.password), "***")
        kind = StoreBusy if explained.busy else StoreError
        return kind(observed, expected=explained.expected, where=f"store {self.where}", next_step=explained.next_step)


def _end_when_forgotten(connection: Any, record: object) -> None:
    """See `_FORGOTTEN`."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGOTTEN)
    connection.commit()


class Repository:
    """The base of a repository: runs single statements, each in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(self, query: sa.Select[Any]) -> Sequence[Row[Any]]:
        return self._database.read(lambda connection: connection.execute(query).all())

    def _row(self, query: sa.Select[Any]) -> Row[Any] | None:
        return self._database.read(lambda connection: connection.execute(query).one_or_none())

    def _grouped(
        self, query: sa.Select[Any], keys: Collection[str], read: Callable[[Row[Any]], T], *, by: str = "stream"
    ) -> dict[str, tuple[T, ...]]:
        """Key -> its rows as `read` makes them, in the order of the query, also of the keys that have none.

        Args:
            by: the column of the keys; rows of other keys are left out.
        """
        rows_of: dict[str, list[T]] = {key: [] for key in keys}
        place = query.selected_columns.keys().index(by)
        for row in self._rows(query):
            if row[place] in rows_of:
                rows_of[row[place]].append(read(row))
        return {key: tuple(rows) for key, rows in rows_of.items()}

    def _execute(self, statement: sa.Executable, rows: Sequence[dict[str, Any]] | None = None) -> None:
        self._database.write(lambda connection: connection.execute(statement, rows))


def insert(connection: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT, which both databases spell alike."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def upsert(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert `rows`, each with the same columns; a row whose primary key is there already is replaced."""
    if rows:
        connection.execute(_upsert(connection.dialect.name, table, tuple(rows[0])), rows)


@cache
def _upsert(dialect: str, table: sa.Table, columns: tuple[str, ...]) -> sa.Insert:
    """Built once: building it takes longer than running it.

    A row that consists of its key is updated too: this takes the row's lock and so waits for its holder.
    """
    statement = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    others = [name for name in columns if name not in keys] or keys[-1:]
    return statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in others}
    )


def safe_url(url: URL) -> str:
    """The URL with passwords masked, also those in its query."""
    masked = {name: "***" if is_secret(name) else value for name, value in url.query.items()}
    return url.set(query=masked).render_as_string(hide_password=True)


def _parse(text: str) -> URL:
    expected = "sqlite:///PATH, or postgresql+DRIVER://USER:PASSWORD@HOST/NAME"
    step = "correct STREAMWARDEN_STORE_URL (or unset it: the default is a SQLite file in the data folder)"
    try:
        url = make_url(text)
    except (SQLAlchemyError, ValueError):
        # The cause repeats the text, and the text may hold a password.
        raise StoreError("the store's URL cannot be read", expected=expected, next_step=step) from None
    backend = url.get_backend_name()
    if backend == "sqlite" and (not url.database or url.database == ":memory:" or url.query):
        observed = "a SQLite store is one plain file that several processes share"
        raise StoreError(observed, expected="sqlite:///PATH", where=f"store {safe_url(url)}", next_step=step)
    if backend not in ("sqlite", "postgresql"):
        observed = f"no store can be kept in {backend}"
        raise StoreError(observed, expected=expected, where=f"store {safe_url(url)}", next_step=step)
    return url


def _begin(connection: Connection) -> None:
    """A write takes the lock at once: a lock that is upgraded half-way can deadlock and ignores the busy timeout."""
    write = connection.get_execution_options().get(_WRITE, False)
    # To the driver itself: SQLAlchemy takes longer to pass it on than SQLite to do it.
    connection.connection.driver_connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")  # type: ignore[union-attr]


def _remember_file(path: Path) -> Callable[[Any, Any], None]:
    def connected(connection: Any, record: Any) -> None:
        record.info["file"] = _file(path)

    return connected


def _same_file(path: Path) -> Callable[[Any, Any, Any], None]:
    """A pooled connection to a file that was deleted or replaced would write to a file that no process reads."""

    def checked_out(connection: Any, record: Any, proxy: Any) -> None:
        if record.info.get("file") != _file(path):
            raise DisconnectionError("the store's file was replaced")

    return checked_out


def _file(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _forget_connections(engine: Engine | None) -> None:
    if engine is not None:
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)
