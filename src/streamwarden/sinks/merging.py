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


def merge_statement(table: str, view: str, key: Sequence[str]) -> str:
    """The MERGE of the view's rows into a table: a row replaces the one of the same key, in which null is a value.

    Args:
        table: as SQL names it, quoted.
    """
    same = " AND ".join(f"t.{quoted(name)} <=> b.{quoted(name)}" for name in key)
    return (
        f"MERGE INTO {table} t USING {quoted(view)} b ON {same} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


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
