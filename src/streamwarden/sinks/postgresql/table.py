"""The table that a stream writes: created if it does not exist; if it exists, it must take every row unchanged."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from streamwarden.errors import ConfigError

BATCH: Final = "batch_id"
"""The column beside the job's own: which batch wrote the row."""

BATCH_TABLE: Final = "streamwarden_sink"
"""The table, in the schema of the target, that says which batch of which query is in the target."""

_LONGEST: Final = 63
"""Bytes of a name: PostgreSQL truncates longer ones."""

_WIDER: Final = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
    "text": ("character varying",),
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows, with the type that the table gets for it (in PostgreSQL's spelling of `format_type`)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table that a stream writes to.

    Args:
        schema: None: the first one of the user's search path.
        key: columns that identify a row.
        replaces: whether a row replaces the one of the same key (update mode).
    """

    schema: str | None
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table as it is: its schema's name and the type of each of the target's columns, as oids."""

    schema: str
    name: str
    oids: tuple[int, ...]

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def split(table: str) -> tuple[str | None, str]:
    """`schema.table` -> both; `table` -> None and it."""
    schema, _, name = table.rpartition(".")
    return schema or None, name


def find_schema(cursor: psycopg.Cursor[Any], schema: str | None) -> str:
    """`schema`, or the one where the user's tables are made. Raises ConfigError if there is none."""
    if schema is not None:
        return schema
    (current,) = cursor.execute("SELECT current_schema()").fetchone() or (None,)
    if current is None:
        raise ConfigError(
            "no schema of the user's search path exists",
            expected="a schema for the table",
            where="search_path",
            next_step="write `sink.table` as schema.table",
        )
    return str(current)


def ensure(cursor: psycopg.Cursor[Any], target: Target) -> Table:
    """Create the table if it does not exist, and check that it fits. Raises ConfigError, with the remedy, if not."""
    _check_names(target)
    schema = find_schema(cursor, target.schema)
    # Two drivers that make the same table at once would collide in the catalogue.
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('streamwarden: make a table', 0))")
    exists = cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if exists is None:
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    if _kind(cursor, schema, target.table) is None:
        cursor.execute(_create(schema, target))
    return _fitting(cursor, schema, target)


def _create(schema: str, target: Target) -> sql.Composed:
    columns = [sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in target.columns]
    columns.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(BATCH)))
    if target.key:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(_listed(target.key)))
    return sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(schema, target.table), sql.SQL(", ").join(columns))


def _listed(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _check_names(target: Target) -> None:
    names = [column.name for column in target.columns]
    lacking = [name for name in target.key if name not in names]
    twice = [name for name in names if names.count(name) > 1]
    long = [name for name in names if len(name.encode()) > _LONGEST]
    odd = [name for name in names if not name or "\x00" in name]
    where = f"{target.schema + '.' if target.schema else ''}{target.table}"
    own = [name for name in names if name == BATCH]
    for wrong, observed, expected in (
        (lacking, "sink.key names {}, which the rows do not have", f"columns among {', '.join(names)}"),
        (twice, "the rows have the column {} twice", "distinct names"),
        (long, "the column's name {} is too long", f"at most {_LONGEST} bytes"),
        (odd, "{!r} is not the name of a column", "a name"),
        (own, "the rows have a column {}, and the table's is the number of the batch", "another name"),
    ):
        if wrong:
            step = "correct sink.key" if wrong is lacking else "rename it in the job"
            raise ConfigError(observed.format(wrong[0]), expected=expected, where=where, next_step=step)
    if target.table == BATCH_TABLE:
        raise ConfigError(
            "this is the name of the sink's batch table",
            expected="another name",
            where=where,
            next_step="rename it",
        )


def _kind(cursor: psycopg.Cursor[Any], schema: str, table: str) -> str | None:
    row = cursor.execute(
        "SELECT c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        (schema, table),
    ).fetchone()
    return None if row is None else str(row[0])


def _fitting(cursor: psycopg.Cursor[Any], schema: str, target: Target) -> Table:
    where = f"{schema}.{target.table}"
    if _kind(cursor, schema, target.table) not in ("r", "p"):
        raise ConfigError(
            "it is not a table", expected="a table", where=where, next_step="name another one in `sink.table`"
        )
    relation = sql.Literal(sql.Identifier(schema, target.table).as_string(cursor)) + sql.SQL("::regclass")
    there = {
        name: (oid, written, required)
        for name, oid, written, required in cursor.execute(
            sql.SQL(
                "SELECT attname, atttypid, format_type(atttypid, atttypmod),"
                " attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''"
                " FROM pg_attribute WHERE attrelid = {} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            ).format(relation)
        ).fetchall()
    }
    wanted = (*target.columns, Column(BATCH, "bigint"))
    problems = []
    for column in wanted:
        _, written, _ = there.get(column.name, (0, None, False))
        if written is None:
            problems.append(f"it lacks the column {column.name} {column.type}")
        elif not fits(column.type, written):
            problems.append(f"its column {column.name} is {written}, and the rows have {column.type}")
    names = {column.name for column in wanted}
    needy = [name for name, (_, _, must) in there.items() if must and name not in names]
    problems += [f"its column {name} needs a value, and the rows have none" for name in needy]
    if target.key and not _is_unique(cursor, relation, target.key):
        problems.append(f"it has no primary key on ({', '.join(target.key)})")
    if problems:
        raise ConfigError(
            f"the table does not fit: {'; '.join(problems)}",
            expected=f"({', '.join(f'{column.name} {column.type}' for column in wanted)})",
            where=where,
            next_step="alter it, or set `sink.table` to a table that does not exist; "
            "it will be created with the right columns",
        )
    return Table(schema=schema, name=target.table, oids=tuple(there[column.name][0] for column in wanted))


def fits(rows: str, column: str) -> bool:
    """Whether a column of the type `column` holds every value of the type `rows`, unchanged."""
    if rows.endswith("[]"):
        return column.endswith("[]") and fits(rows.removesuffix("[]"), column.removesuffix("[]"))
    if rows == column or column in _WIDER.get(rows, ()):
        return True
    mine, its = _NUMERIC.fullmatch(rows), _NUMERIC.fullmatch(column)
    if mine is None or its is None:
        return mine is not None and column == "numeric"
    digits, scale = int(its[1]) - int(its[2]), int(its[2])  # a smaller scale would round, without a word
    return digits >= int(mine[1]) - int(mine[2]) and scale >= int(mine[2])


def _is_unique(cursor: psycopg.Cursor[Any], relation: sql.Composable, key: Sequence[str]) -> bool:
    """Whether no two rows can have the same key: a primary key, or as good as one (of nulls there may be many)."""
    row = cursor.execute(
        sql.SQL(
            "SELECT array_agg(a.attname::text) FROM pg_index i"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])"
            " WHERE i.indrelid = {} AND i.indisunique AND i.indimmediate AND i.indisvalid"
            " AND i.indpred IS NULL AND i.indexprs IS NULL"
            " GROUP BY i.indexrelid HAVING bool_and(a.attnotnull)"
        ).format(relation)
    ).fetchall()
    return any(set(columns) == set(key) for (columns,) in row)
