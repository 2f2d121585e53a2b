"""Maps records to rows: fields to the columns of their names, and a process identity to three columns."""

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Row

from streamwarden.lifecycle.driver import ProcessIdentity

T = TypeVar("T")


def to_columns(table: sa.Table, record: Any, /, **others: Any) -> dict[str, Any]:
    """The fields of a dataclass for the columns of the same names, and `others`."""
    names = _names(type(record))  # type: ignore[arg-type]
    return {name: getattr(record, name) for name in names if name in table.c} | others


def to_record(kind: type[T], row: Row[Any], /, **others: Any) -> T:
    """A dataclass of the columns that have the names of its fields, and of `others`."""
    values = row._asdict()
    names = _names(kind)  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names if name in values} | others)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def process_columns(process: ProcessIdentity | None) -> dict[str, Any]:
    """The three columns; all None for no process."""
    return {
        "host": process.host if process else None,
        "pid": process.pid if process else None,
        "process_started_at": process.started_at if process else None,
    }


def read_process(row: Row[Any]) -> ProcessIdentity | None:
    """The process of a row with those columns."""
    if row.pid is None:
        return None
    return ProcessIdentity(host=row.host, pid=row.pid, started_at=row.process_started_at)
