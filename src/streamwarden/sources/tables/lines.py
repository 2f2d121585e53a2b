"""The rows of a table's data files as files of JSON lines: the input of an oracle, which knows no format but that."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def write_lines(tables: Iterable[pa.Table], into: Path) -> list[Path]:
    """One file for each table, named by its place; a row is an object with a member for each column."""
    into.mkdir(parents=True, exist_ok=True)
    return [_write(table, into / f"{number:06}.json") for number, table in enumerate(tables)]


def _write(table: pa.Table, file: Path) -> Path:
    with file.open("w") as lines:
        for batch in table.to_batches():
            lines.writelines(f"{json.dumps(row, default=shown)}\n" for row in batch.to_pylist())
    return file


def shown(value: object) -> str:
    """A value that JSON has no type for, as Spark writes it. Raises TypeError for one that Spark does not write."""
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"a value of the type {type(value).__name__} has no JSON")


def _instant(value: datetime) -> str:
    """With milliseconds, as Spark writes it, and with microseconds if there are any."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    if value.tzinfo is None:
        return value.isoformat(timespec=digits)
    return value.astimezone(UTC).isoformat(timespec=digits).replace("+00:00", "Z")
