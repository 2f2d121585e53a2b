"""The MERGE with which a sink in update mode takes a batch into a table of Delta or Iceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamwarden.errors import JobError
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def require_key(spec: StreamSpec, schema: StructType) -> None:
    """Raises JobError if the rows do not have the columns of the sink's key."""
    lacking = [name for name in spec.sink.key if name not in schema.fieldNames()]
    if lacking:
        raise JobError(
            f"the rows have no column {', '.join(lacking)}",
            expected=f"the columns of sink.key among {', '.join(schema.fieldNames())}",
            where=spec.job,
            next_step="correct `sink.key`, or add the column in the job",
        )


def merge_statement(table: str, view: str, key: Sequence[str], columns: Sequence[str] = ()) -> str:
    """The MERGE of the view's rows into a table: a row replaces the one of the same key, in which null is a value.

    Args:
        table: as SQL names it, quoted.
        columns: the columns that are written; empty: all those of the table.
    """
    same = " AND ".join(f"t.{quoted(name)} <=> b.{quoted(name)}" for name in key)
    names, values = (", ".join(f"{side}{quoted(name)}" for name in columns) for side in ("", "b."))
    changed = ", ".join(f"t.{quoted(name)} = b.{quoted(name)}" for name in columns) or "*"
    inserted = f"({names}) VALUES ({values})" if columns else "*"
    return (
        f"MERGE INTO {table} t USING {quoted(view)} b ON {same} "
        f"WHEN MATCHED THEN UPDATE SET {changed} WHEN NOT MATCHED THEN INSERT {inserted}"
    )


def columns_to_merge(table: Sequence[str], batch: Sequence[str]) -> Sequence[str]:
    """The columns to name in a MERGE into a table that has got more columns than the batch: `*` would ask the batch for
    each of them. Empty if the batch has them all."""
    has = {name.lower() for name in batch}
    lacks = [name for name in table if name.lower() not in has]
    return [name for name in table if name.lower() in has] if lacks else ()


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def settings(session: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Give the session of a query, which is the query's own, these settings for one write."""
    for name, value in given.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in given:
            session.conf.unset(name)
