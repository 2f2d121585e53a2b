"""Names of files inside a checkpoint, and the text format of its logs.

Every log of Spark is a folder of small text files named by batch: a version line (`v1`), then lines of JSON. A log that
is compacted has, every few batches, one `N.compact` that repeats everything up to N.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO, RawIOBase, TextIOWrapper
from itertools import chain as concatenate
from itertools import islice
from typing import Any, BinaryIO, Final, TypeGuard

from streamwarden.checkpoint.filesystem import Location, NotAFile, TooLarge
from streamwarden.checkpoint.formats.checksums import ChecksumMismatch, verify
from streamwarden.checkpoint.spark_version import SPARK

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"
SINK_LOG: Final = "_spark_metadata"
PARTS: Final = (METADATA, OFFSETS, COMMITS, SOURCES, STATE)

COMPACT: Final = ".compact"

MOST_GAPS: Final = 1000
"""Missing batches that are listed: a stray file with a huge number would make them billions."""
MOST_BATCHES: Final = 1000
"""Batches of a log that the inspector reads, newest first; Spark keeps 100 by default."""
SMALL: Final = 16 << 20
"""Bytes up to which a file of a log that is not compacted is read. Spark writes some kB, for thousands of partitions a
few hundred."""
LONGEST: Final = 1 << 20
"""Characters of a line of a log that is compacted. Spark's have a few hundred, and less than 20,000 for any path."""

_BATCHES: Final = re.compile(r"(?:\A|/)(0|[1-9][0-9]{0,18})(?=/|\Z)")
"""The names of batches in a text of names with `/` between them: one search is quicker than one for each name."""
_COMPACTIBLES: Final = re.compile(r"(?:\A|/)(0|[1-9][0-9]{0,18})(\.compact)?(?=/|\Z)")
_VERSION: Final = re.compile(r"v\+?0{0,9}([1-9][0-9]{0,9})")
_PARTITION: Final = re.compile(r"[0-9]{1,10}")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_LARGEST: Final = 2**63 - 2
"""Spark's batch ids are Java's longs. The last one is left out: it has no successor."""
_DEEPEST: Final = 100
"""Levels of JSON. Spark writes fewer than ten."""


class Damaged(Exception):  # not a StreamwardenError: it becomes a `Damage`, and never reaches a user
    """A file of a log exists and cannot be read. The message says what was observed."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as text: its format version and the lines after it."""

    version: int
    lines: tuple[str, ...]


def batch_ids(names: Iterable[str]) -> list[int]:
    """Batches that have their own file, ascending; temporary and checksum files do not count."""
    return sorted(number for number in map(int, _BATCHES.findall("/".join(names))) if number <= _LARGEST)


def compactible_ids(names: Iterable[str]) -> list[tuple[int, bool]]:
    """(batch, whether it is a compact file) of a compactible log, ascending."""
    found = ((int(batch), compact != "") for batch, compact in _COMPACTIBLES.findall("/".join(names)))
    return sorted(entry for entry in found if entry[0] <= _LARGEST)


def compactible_name(batch: int, compact: bool) -> str:
    """`9`, or `9.compact`."""
    return f"{batch}{COMPACT}" if compact else str(batch)


def chain(ids: Iterable[tuple[int, bool]], upto: int) -> tuple[list[tuple[int, bool]], list[int]]:
    """The files that Spark reads for the state of a compactible log at batch `upto`, and the batches that lack one, of
    which it lists the first `MOST_GAPS`.

    The files are the newest compact file at or below `upto` and each file after it; without one, all from batch 0.
    """
    existing = set(ids)
    base = max((batch for batch, compact in existing if compact and batch <= upto), default=None)
    first = 0 if base is None else base + 1
    single = sorted(batch for batch, compact in existing if not compact and first <= batch <= upto)
    missing = list(islice(concatenate.from_iterable(gaps(single, first, upto)), MOST_GAPS))
    return ([(base, True)] if base is not None else []) + [(batch, False) for batch in single], missing


def gaps(known: Iterable[int], first: int, last: int) -> Iterator[range]:
    """The numbers from `first` to `last` that `known` (ascending) lacks, as ranges, ascending."""
    expected = first
    for number in known:
        if number > last:
            break
        if number > expected:
            yield range(expected, number)
        expected = max(expected, number + 1)
    if expected <= last:
        yield range(expected, last + 1)


def runs(numbers: Iterable[int]) -> list[range]:
    """Ascending numbers as ranges of consecutive ones."""
    ranges: list[range] = []
    for number in numbers:
        if ranges and ranges[-1].stop == number:
            ranges[-1] = range(ranges[-1].start, number + 1)
        else:
            ranges.append(range(number, number + 1))
    return ranges


def read_log_file(file: Location) -> LogFile:
    """Raises Damaged if it is empty, has no version line or has more than `SMALL` bytes, FileNotFoundError if there is
    none."""
    return parse_log_file(read_bytes(file))


def read_bytes(file: Location) -> bytes:
    """The content of a file as Hadoop reads it. Raises Damaged if it is not a regular file, does not match its checksum
    file or has more than `SMALL` bytes, FileNotFoundError if it does not exist."""
    with _damaged_if_no_file():
        content = file.read(SMALL)
        covered = checked(file, content)
    return content[:covered]


@contextmanager
def open_log(file: Location, newest: int | None = None) -> Iterator[tuple[int, Iterator[str]]]:
    """A file of a log that is compacted, read as a stream, because it may name millions of files: its format version,
    and the lines after that. `newest`: the latest version that is known; None: any.

    Raises Damaged, from the lines too, and FileNotFoundError if there is none.
    """
    with _damaged_if_no_file():
        covered = checked(file)
        with file.open() as stream:
            text = TextIOWrapper(BufferedReader(_Covered(stream, covered)), encoding="utf-8")
            version = _version(text.readline(LONGEST).rstrip("\n"))
            if newest is not None:
                _require_known(version, newest)
            yield version, _lines(text)


def read_whole_log(file: Location, newest: int | None = None) -> LogFile:
    """All of what `open_log` reads."""
    with open_log(file, newest) as (version, lines):
        return LogFile(version, tuple(lines))


def _lines(text: TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST):
        if len(line) == LONGEST:
            raise Damaged(f"a line has more than {LONGEST:,} characters: {line[:60]!r}")
        yield line.rstrip("\n")


class _Covered(RawIOBase):
    """The beginning of a stream, as far as a checksum file covers it; `left`: bytes, None for all."""

    def __init__(self, stream: BinaryIO, left: int | None) -> None:
        self._stream, self._left = stream, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer) if self._left is None else min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        if self._left is not None:
            self._left -= len(piece)
        return len(piece)


@contextmanager
def _damaged_if_no_file() -> Iterator[None]:
    try:
        yield
    except IsADirectoryError as error:
        raise Damaged("it is a folder, not a file") from error
    except NotAFile as error:
        raise Damaged("it is not a regular file") from error
    except TooLarge as error:
        raise Damaged(error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 text: {error.reason}") from error


def checked(file: Location, content: bytes | None = None) -> int | None:
    """Number of bytes of the file that Hadoop reads; None: all, as it has no checksum file. Raises Damaged if the two
    do not match.

    Args:
        content: of the whole file; None: it is read here, in parts.
    """
    try:
        sums = b"" if file.checksum_file is None else file.checksum_file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotAFile):
        return None
    if not sums:
        return None
    try:
        with file.open() if content is None else BytesIO(content) as stream:
            return verify(stream, sums)
    except ChecksumMismatch as error:
        raise Damaged(str(error)) from error


def require_version(log: LogFile, newest: int) -> None:
    """Raises Damaged for a format that is too new for the known Spark."""
    _require_known(log.version, newest)


def _require_known(version: int, newest: int) -> None:
    if version > newest:
        raise Damaged(f"its format is v{version}, of a later Spark; Spark {SPARK} reads formats up to v{newest}")


def parse_log_file(content: bytes) -> LogFile:
    """Raises Damaged if it is empty or has no version line."""
    try:
        first, *rest = _LINE_END.split(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    if rest and not rest[-1]:
        rest.pop()  # what ends with a line end has no empty line after it
    return LogFile(_version(first), tuple(rest))


def _version(first: str) -> int:
    """The version that the first line of a log file names. Raises Damaged if it names none."""
    # A Kafka source's log of its initial offsets begins with a zero byte, which Spark 2.1 required.
    match = _VERSION.fullmatch(first, pos=1 if first.startswith("\0") else 0)
    if match is None:
        raise Damaged(
            f"the first line reads {first[:40]!r}, not a version such as v1" if first else "the file is empty"
        )
    return int(match.group(1))


def parse_json(line: str) -> Any:
    """The first JSON value of a line; like Spark, ignores what follows. Raises Damaged for an incomplete value."""
    try:
        value = _DECODER.raw_decode(line.lstrip())[0]
    except (ValueError, RecursionError) as error:
        raise Damaged(f"incomplete JSON: {line[:60]!r}") from error
    if line.count("[") + line.count("{") > _DEEPEST and _depth(value) > _DEEPEST:
        raise Damaged(f"JSON of more than {_DEEPEST} levels: {line[:60]!r}")
    return value


def parse_object(line: str) -> Mapping[str, Any]:
    """A JSON object. Raises Damaged for anything else."""
    value = parse_json(line)
    if not isinstance(value, dict):
        raise Damaged(f"not a JSON object: {line[:60]!r}")
    return value


def is_number(value: Any) -> TypeGuard[int]:
    """Whether it is a JSON integer; `true` is not. Spark accepts numbers that are too large for a long."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_partition(text: Any) -> bool:
    """Whether the text is the number of a partition, or of an operator."""
    return isinstance(text, str) and _PARTITION.fullmatch(text) is not None


def _depth(value: Any) -> int:
    """Levels of lists and objects."""
    depth, level = 0, [value]
    while level:
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for values in inner for item in values]
        depth += 1
    return depth


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def list_or_empty(folder: Location) -> list[str]:
    """Names in a folder; none if it does not exist."""
    try:
        return list(folder.names())
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_file(file: Location) -> bool:
    """Whether there is such a file. Raises OSError if the storage does not answer."""
    try:
        return not file.stat().is_dir
    except (FileNotFoundError, NotADirectoryError):
        return False
