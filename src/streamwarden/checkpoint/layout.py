"""Names of files inside a checkpoint, and the text format of its logs.

Every log of Spark is a folder of small text files named by batch: a version line (`v1`), then lines of JSON. A log that
is compacted has, every few batches, one `N.compact` that repeats everything up to N.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.checkpoint.filesystem import Location

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"
SINK_LOG: Final = "_spark_metadata"
PARTS: Final = (METADATA, OFFSETS, COMMITS, SOURCES, STATE)

COMPACT: Final = ".compact"

_BATCH: Final = re.compile(r"([0-9]+)")
_COMPACTIBLE: Final = re.compile(r"([0-9]+)(\.compact)?")
_VERSION: Final = re.compile(r"v([1-9][0-9]*)")
_DECODER: Final = json.JSONDecoder()


class Damaged(Exception):  # not a StreamwardenError: it becomes a `Damage`, and never reaches a user
    """A file of a log exists and cannot be read. The message says what was observed."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as text: its format version and the lines after it."""

    version: int
    lines: tuple[str, ...]


def batch_ids(names: Iterable[str]) -> list[int]:
    """Batches that have their own file, ascending; temporary and checksum files do not count."""
    return sorted(int(match.group()) for name in names if (match := _BATCH.fullmatch(name)))


def compactible_ids(names: Iterable[str]) -> list[tuple[int, bool]]:
    """(batch, whether it is a compact file) of a compactible log, ascending."""
    found = (match for name in names if (match := _COMPACTIBLE.fullmatch(name)))
    return sorted((int(match.group(1)), match.group(2) is not None) for match in found)


def compactible_name(batch: int, compact: bool) -> str:
    """`9`, or `9.compact`."""
    return f"{batch}{COMPACT}" if compact else str(batch)


def chain(ids: Iterable[tuple[int, bool]], upto: int) -> tuple[list[tuple[int, bool]], list[int]]:
    """The files that Spark reads for the state of a compactible log at batch `upto`, and the batches that lack one.

    These are the newest compact file at or below `upto` and each file after it; without one, all from batch 0.
    """
    known = set(ids)
    base = max((batch for batch, compact in known if compact and batch <= upto), default=None)
    first = 0 if base is None else base + 1
    files = [(batch, False) for batch in range(first, upto + 1) if (batch, False) in known]
    missing = [batch for batch in range(first, upto + 1) if (batch, False) not in known]
    return ([(base, True)] if base is not None else []) + files, missing


def read_log_file(file: Location) -> LogFile:
    """Raises Damaged if it is empty or has no version line, FileNotFoundError if it does not exist."""
    return parse_log_file(read_bytes(file))


def read_bytes(file: Location) -> bytes:
    """The content of a file. Raises Damaged if it is a folder, FileNotFoundError if it does not exist."""
    try:
        return file.read()
    except IsADirectoryError as error:
        raise Damaged("it is a folder, not a file") from error


def require_version(log: LogFile, newest: int) -> None:
    """Raises Damaged for a format that is too new for Spark 4.3."""
    if log.version > newest:
        raise Damaged(f"its format is v{log.version}, of a later Spark; Spark 4.3 reads formats up to v{newest}")


def parse_log_file(content: bytes) -> LogFile:
    """Raises Damaged if it is empty or has no version line."""
    if not content:
        raise Damaged("the file is empty")
    try:
        first, *rest = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    # A Kafka source's log of its initial offsets begins with a zero byte, which Spark 2.1 required.
    match = _VERSION.fullmatch(first.removeprefix("\0").removesuffix("\r"))
    if match is None:
        raise Damaged(f"the first line reads {first[:40]!r}, not a version such as v1")
    return LogFile(int(match.group(1)), tuple(line for line in rest if line.strip()))


def parse_json(line: str) -> Any:
    """The first JSON value of a line; like Spark, ignores what follows. Raises Damaged for an incomplete value."""
    try:
        return _DECODER.raw_decode(line.lstrip())[0]
    except ValueError as error:
        raise Damaged(f"incomplete JSON: {line[:60]!r}") from error


def parse_object(line: str) -> Mapping[str, Any]:
    """A JSON object. Raises Damaged for anything else."""
    value = parse_json(line)
    if not isinstance(value, dict):
        raise Damaged(f"not a JSON object: {line[:60]!r}")
    return value


def list_or_empty(folder: Location) -> list[str]:
    """Names in a folder; none if it does not exist."""
    try:
        return list(folder.names())
    except (FileNotFoundError, NotADirectoryError):
        return []
