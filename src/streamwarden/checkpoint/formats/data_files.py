"""Checks data files of an output: their checksum files, and the magic bytes of a Parquet file.

The rows are not read. The newest files come first, and reading ends after a certain number of files and bytes.
"""

import os
from collections.abc import Iterator
from typing import Final

from streamwarden.checkpoint.filesystem import FileSystem, Location, NotAFile
from streamwarden.checkpoint.formats.layout import Damaged, checked

_MOST_FILES: Final = 1000
_MOST_REMOTE: Final = 100
"""Files of an object store, of which each takes some requests."""
_MOST_BYTES: Final = 256 << 20
_MARK: Final = b"PAR1"
_END: Final = 8


def damaged_files(fs: FileSystem, named: dict[str, int | None]) -> Iterator[tuple[str, str]]:
    """(path, what was observed) of the files that cannot be read. `named`: path -> bytes; the newest last."""
    left = _MOST_BYTES
    for path in list(reversed(named))[: _MOST_FILES if fs.checksums else _MOST_REMOTE]:
        file, left = Location(fs, path, verified=True), left - (named[path] or 0)
        try:
            if left > 0:
                checked(file)
            if path.endswith(".parquet"):
                _check_parquet(file)
        except Damaged as error:
            yield path, str(error)
        except (IsADirectoryError, NotAFile):
            yield path, "it is not a regular file"
        except FileNotFoundError:
            continue  # named as lost


def has_no_row(file: Location) -> bool:
    """Whether it is a Parquet file with only header and footer, as Spark writes for a partition without rows."""
    if not file.path.endswith(".parquet"):
        return False
    size, footer = _footer(file)
    return footer + _END + len(_MARK) == size


def is_closed(file: Location) -> bool:
    """Whether its writer has closed it, as far as the file shows: a Parquet file has its footer, another one has bytes.
    A file that has vanished is not closed."""
    try:
        return _footer(file)[1] >= 0 if file.path.endswith(".parquet") else file.stat().size > 0
    except FileNotFoundError:
        return False


def _check_parquet(file: Location) -> None:
    size, footer = _footer(file)
    if not 0 <= footer <= size - _END - len(_MARK):
        raise Damaged("it does not begin and end as a Parquet file")


def _footer(file: Location) -> tuple[int, int]:
    """Bytes of the file, and of its footer; -1 for a footer without magic bytes or without a header before it."""
    with file.open() as stream:
        head = stream.read(len(_MARK))
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _END))
        end = stream.read()
    whole = head == _MARK and end[len(_MARK) :] == _MARK
    return size, int.from_bytes(end[: len(_MARK)], "little") if whole else -1
