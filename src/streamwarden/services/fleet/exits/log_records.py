"""Splits a driver's log into records with a level: Spark's own lines, stack traces, and a job's own output."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.ERROR,
    "CRITICAL": logging.ERROR,
}

_LEVEL: Final = f"(?P<level>{'|'.join(_LEVELS)})"
_HEADERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # Spark's layout, `26/11/23 00:45:15 WARN Utils: …`, and the usual ones of log4j and of Python's logging.
        rf"\[?\d\d(?:\d\d)?[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d\S*(?: \[[^\]]*\])? +\[?{_LEVEL}\b",
        rf"{_LEVEL}:[\w.]+:",
        rf'\{{"ts":"[^"]*","level":"{_LEVEL}"',  # spark.log.structuredLogging.enabled
    )
)
_RAISED: Final = re.compile(r'Traceback \(most recent call last\):|Exception in thread "')
_OWN: Final = "streamwarden: "
"""What the lines of Streamwarden's own runner begin with."""

_CONTINUATION: Final = re.compile(r"\s|$|Caused by: |Suppressed: |[\w.$]+(?:Exception|Error|Throwable)\b")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record. `level` is one of Python's `logging` (DEBUG to ERROR); `text` may have several lines."""

    level: int
    text: str


class LogRecords:
    """Groups the lines of a growing log. A record cut by one read continues in the next with the same level."""

    def __init__(self) -> None:
        self._level = logging.INFO

    def of(self, lines: Iterable[str]) -> Sequence[LogRecord]:
        """The records of the lines of one read.

        Lines without a header belong to the ERROR before them. To a WARN only what looks like a part of a stack trace
        belongs, because what a job prints has no header either.
        """
        records: list[tuple[int, list[str]]] = []
        for line in lines:
            stated = _stated_level(line)
            if stated is not None or not self._continues(line, first=not records):
                self._level = stated if stated is not None else _level_without_header(line)
                records.append((self._level, [line]))
            elif records:
                records[-1][1].append(line)
            else:
                records.append((self._level, [line]))
        return [LogRecord(level, "\n".join(text)) for level, text in records]

    def _continues(self, line: str, *, first: bool) -> bool:
        if self._level < logging.WARNING or line.startswith(_OWN):
            return False
        return (self._level == logging.ERROR and not first) or _CONTINUATION.match(line) is not None


def _stated_level(line: str) -> int | None:
    """The level in the header of a line; None for a line without a header."""
    for header in _HEADERS:
        if (match := header.match(line)) is not None:
            return _LEVELS[match["level"]]
    return None


def _level_without_header(line: str) -> int:
    return logging.ERROR if _RAISED.match(line) else logging.INFO
