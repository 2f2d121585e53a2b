"""The lines of an input file as Spark's text-based sources read them. Pure, apart from reading the file.

Measured on Spark 4.3: the file is decompressed by its extension alone, in upper or lower case, whatever the reader's
option `compression` says; several compressed streams in one file are read one after the other; a byte order mark is
skipped; lines end in LF, CR or CRLF; a line of spaces and tabs is not a record.
"""

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from streamwarden.errors import VerificationError

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def _inflated(content: bytes) -> bytes:
    """The content of zlib streams, one after the other."""
    parts = []
    while content:
        stream = zlib.decompressobj()
        parts.append(stream.decompress(content))
        if not stream.eof:
            raise EOFError("the file ends inside a compressed stream")
        content = stream.unused_data
    return b"".join(parts)


_DECOMPRESSORS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    ".gz": gzip.decompress,
    ".gzip": gzip.decompress,
    ".bz2": bz2.decompress,
    ".deflate": _inflated,
}
_NOT_DECOMPRESSED: Final = frozenset({".lz4", ".snappy", ".zst", ".zstd"})
"""Compressed formats that Spark reads and the standard library does not."""


def lines(path: Path) -> Iterator[str]:
    """The lines of an input file, without those that are not records.

    Raises VerificationError if the file cannot be read or decompressed.
    """
    content = _content(path).removeprefix(_BYTE_ORDER_MARK)
    for line in _LINE_END.split(content):
        if line.strip(b" \t"):
            yield line.decode("utf-8", errors="replace")


def require_lines(options: Mapping[str, str]) -> None:
    """Raises VerificationError for source options with which Spark's records are not these lines."""
    given = {name.lower(): value for name, value in options.items()}
    for name, plain in _PLAIN.items():
        if name in given and given[name].lower() not in plain:
            raise VerificationError(
                f"the source has the option {name} = {given[name]!r}, with which a record is not a line of UTF-8",
                expected=f"no option {name}, or {' or '.join(plain)}" if plain else f"no option {name}",
                where="source.options",
                next_step="read the input files in the oracle itself, or leave the option out",
            )


_PLAIN: Final[Mapping[str, tuple[str, ...]]] = {
    "multiline": ("false",),
    "wholetext": ("false",),
    "linesep": (),
    "encoding": ("utf-8", "utf8"),
    "charset": ("utf-8", "utf8"),
}
"""Option of Spark's text-based sources -> the values with which a record is a line of UTF-8."""


def unreadable(path: Path, error: Exception) -> VerificationError:
    """The error for an input file that the oracle needs and that cannot be read."""
    return VerificationError(
        f"an input file cannot be read: {error}",
        expected="the whole input, as the stream read it",
        where=str(path),
        next_step="restore the file",
    )


def _content(path: Path) -> bytes:
    """The bytes of the text in the file."""
    extension = path.suffix.lower()
    if extension in _NOT_DECOMPRESSED:
        raise VerificationError(
            f"an input file is compressed as {extension}, which the oracle cannot decompress",
            expected=f"plain text, or one of {', '.join(_DECOMPRESSORS)}",
            where=str(path),
            next_step="verify against decompressed copies of the input, or let the producer compress with gzip",
        )
    try:
        content = path.read_bytes()
        return _DECOMPRESSORS[extension](content) if extension in _DECOMPRESSORS else content
    except (OSError, EOFError, zlib.error, ValueError) as error:  # the last: a cut bzip2 file
        raise unreadable(path, error) from error
