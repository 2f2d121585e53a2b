"""Records of a driver's log: those that a person searches for, or those around an error. Pure."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.services.fleet.exits.log_records import LogRecord, LogRecords

BEFORE: Final = 60
AFTER: Final = 20
"""Records around an error."""
SHOWN: Final = 200
"""Newest records of a search."""
LEVELS: Final = {"": logging.NOTSET, "warning": logging.WARNING, "error": logging.ERROR}
"""Name of a choice -> the least level that it shows."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """One record. `found`: it contains the text that a person looks for."""

    level: str
    text: str
    found: bool = False


def around(lines: Iterable[str], error: str) -> list[ShownRecord]:
    """The records around the last one that names `error`; the newest ones if none does."""
    records = _records(lines)
    found = [index for index, record in enumerate(records) if error and error in record.text]
    if not found:
        return [_shown(record, "") for record in records[-SHOWN:]]
    return [_shown(record, error) for record in records[max(0, found[-1] - BEFORE) : found[-1] + AFTER + 1]]


def searched(lines: Iterable[str], level: str, wanted: str) -> list[ShownRecord]:
    """The newest records of at least this level that contain `wanted`, whatever its case."""
    fitting = (record for record in _records(lines) if record.level >= LEVELS[level])
    return [_shown(record, wanted) for record in fitting if wanted.lower() in record.text.lower()][-SHOWN:]


def _records(lines: Iterable[str]) -> Sequence[LogRecord]:
    return LogRecords().of([line.rstrip("\r\n") for line in lines])


def _shown(record: LogRecord, wanted: str) -> ShownRecord:
    found = bool(wanted) and wanted.lower() in record.text.lower()
    return ShownRecord(logging.getLevelName(record.level), record.text, found)
