"""A PostgreSQL database by the name of a connection: how to reach it, and the meaning of its errors for a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.pq import Conninfo

from streamwarden.adapters.connections import Connection, variable
from streamwarden.adapters.connections import connection as find
from streamwarden.adapters.postgresql.refusals import NAME_UNKNOWN, NO_DATABASE, NOT_LET_IN, found
from streamwarden.errors import ConfigError, JobError, SinkError, StreamwardenError

SETTINGS: Final = {
    "lock_timeout": "30s",
    "statement_timeout": "10min",
    "idle_in_transaction_session_timeout": "2min",
    # The server's side: of a driver whose host is gone, no session keeps a lock until the next driver wants it, 40 s
    # later. Nobody probes a connection on which an answer waits to be taken: for that there is the last one.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25s",
    "timezone": "UTC",
}
"""Of each session; `options` in the connection's extra wins over them."""

_REACHING: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,  # a server that vanished without a word is noticed in a minute
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "client_encoding": "UTF8",
}

_AIRFLOWS_OWN: Final = frozenset({"cursor", "enable_log_db_messages", "sqlalchemy_scheme", "sqlalchemy_query"})
"""Parts of an Airflow connection's extra that are for its own hook."""

_PASSES: Final = ("08", "40", "53", "55P03", "57P01", "57P02", "57P03", "58", "25006", "25P03")
"""SQLSTATEs, or their classes, that may be gone the next time: connection lost, deadlock or serialization, no room, a
lock not had in time, server going down or coming up, I/O, a standby that is being promoted."""

_OF_ROWS: Final = ("21000", "22", "23")
"""SQLSTATEs that blame the rows: twice the same key in one command, data that a type refuses, a broken constraint."""


_AWAY: Final = "the database cannot be reached or refuses for now"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAccess:
    """How to reach a database. Its repr shows no parameter: one of them is the password."""

    connection: str
    parameters: Mapping[str, Any] = field(repr=False)

    def open(self, application: str) -> psycopg.Connection[Any]:
        """A new session, known to the server as `application`. Raises psycopg.OperationalError."""
        return psycopg.connect(**{**self.parameters, "application_name": application[:63]})


def access(name: str, environ: Mapping[str, str] | None = None) -> DatabaseAccess:
    """How to reach the database that the connection `name` names.

    Raises ConfigError if it is not known here, is not a PostgreSQL connection, or its extra has a key that is not a
    parameter of PostgreSQL's client library.
    """
    named = find(name, environ)
    if not named.kind.startswith("postgres"):
        raise ConfigError(
            f"the connection {name!r} is of the type {named.kind or 'unknown'}",
            expected="postgres",
            where=variable(name),
            next_step="name a connection to a PostgreSQL database in `sink.connection`",
        )
    settings = " ".join(f"-c {key}={value}" for key, value in SETTINGS.items())
    extra = _extra(named)
    extra["options"] = f"{settings} {extra.get('options', '')}".strip()
    host, port = _place(named)
    given = {"host": host, "port": port, "user": named.login, "password": named.password, "dbname": named.schema}
    return DatabaseAccess(
        connection=name,
        parameters={**_REACHING, **extra, **{key: value for key, value in given.items() if value is not None}},
    )


def _place(named: Connection) -> tuple[str | None, str | None]:
    """Host and port; of several hosts (`one:5432,two:5432`) both as PostgreSQL's client library lists them."""
    if named.host is None or "," not in named.host:
        return named.host, None if named.port is None else str(named.port)
    parts = [place.partition(":") for place in named.host.split(",")]
    default = str(named.port or 5432)
    return ",".join(part[0] for part in parts), ",".join(part[2] or default for part in parts)


def _extra(named: Connection) -> dict[str, Any]:
    keywords = {option.keyword.decode() for option in Conninfo.get_defaults()}
    extra = {key: value for key, value in named.extra.items() if key not in _AIRFLOWS_OWN}
    unknown = sorted(extra.keys() - keywords)
    if unknown:
        raise ConfigError(
            f"the connection {named.name!r} has {', '.join(unknown)} in its extra",
            expected="parameters of PostgreSQL's client library, such as sslmode or sslrootcert",
            where=variable(named.name),
            next_step="remove what is none; their values are not shown here, for they may be secret",
        )
    return extra


def passes(error: psycopg.Error) -> bool:
    """Whether the same may work a moment later. Without a SQLSTATE the session was cut, or could not be opened."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError) and not found((*NOT_LET_IN, *NO_DATABASE), str(error))
    return error.sqlstate.startswith(_PASSES)


def explain(error: psycopg.Error, *, connection: str, where: str) -> StreamwardenError:
    """The error of Streamwarden's that `error` is: the database's own message and the next step."""
    said = " ".join(str(error).split())
    state = error.sqlstate or ""
    if passes(error):
        unknown = found(NAME_UNKNOWN, said) and not state
        what = "the name of the database's host cannot be resolved" if unknown else _AWAY
        return SinkError(
            f"{what} ({state or type(error).__name__}: {said})",
            expected="a server that takes the batch",
            where=where,
            next_step="check that the server runs and has free disk space, and which session holds the locks "
            "(pg_stat_activity, pg_locks); nothing is lost: the stream writes the batch when it starts again",
        )
    if state.startswith(_OF_ROWS):
        return JobError(
            f"the table does not take a row of the batch ({state}: {_detailed(error, said)})",
            expected=_EXPECTED.get(state, "values that the column's type and the table's constraints take"),
            where=where,
            next_step=_STEP.get(state, "correct or filter such rows in the job, or change the table"),
        )
    expected, step = _settled(state, said, connection)
    return ConfigError(
        f"the database refuses ({state or type(error).__name__}: {said})",
        expected=expected,
        where=where,
        next_step=step,
    )


_EXPECTED: Final = {
    "21000": "a key that a batch has once: Spark does not say which of two rows is the later one",
    "22021": "text without the character NUL (\\x00), which PostgreSQL's text cannot hold",
    "22P05": "text without the character NUL (\\u0000), which PostgreSQL's jsonb cannot hold",
    "23502": "a value in each column that must have one (each column of `sink.key` must)",
    "23505": "each key once: in mode append a row never replaces another",
}

_STEP: Final = {
    "21000": "add the column that distinguishes the rows to `sink.key`, or aggregate them in the job",
    "22021": "remove it in the job: `regexp_replace(column, '\\\\x00', '')`",
    "22P05": "remove it in the job: `regexp_replace(column, '\\\\x00', '')`",
    "23505": "correct `sink.key`, or take `mode: update` if a later row is meant to replace the earlier one",
}


def _detailed(error: psycopg.Error, said: str) -> str:
    """With the server's detail and place (`COPY t, line 3, column note`), where the message lacks them."""
    more = [text for text in (error.diag.message_detail, error.diag.context) if text and text not in said]
    return "; ".join([said, *(" ".join(text.split()) for text in more)])


def _settled(state: str, said: str, connection: str) -> tuple[str, str]:
    """The expectation and the next step for a refusal that another attempt would not change."""
    if found(NOT_LET_IN, said) or state.startswith("28"):
        return (
            "the user and password of the connection to be right, and the server to take connections from this host",
            f"correct the connection {connection!r} ({variable(connection)}), or the user's rights on the server",
        )
    if found(NO_DATABASE, said) or state == "3D000":
        return "the database that the connection names", f"create it, or correct the connection {connection!r}"
    if state == "42501":
        return (
            "a user that may create the table (or its schema) and write to it, and make temporary tables",
            "grant that to the connection's user, or make the table and grant INSERT, SELECT and UPDATE on it",
        )
    return "a table that takes the stream's rows", "read the database's own words above, and its log"
