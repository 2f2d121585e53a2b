"""Compares the files of a savepoint with its manifest. Pure: the caller reads the digests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from streamwarden.lifecycle.savepoints.savepoint import SavedFile, is_own


class Fault(StrEnum):
    """Kind of a difference between a savepoint and its manifest."""

    MISSING = "missing"  # the manifest lists it, and it is not there
    EXTRA = "extra"  # it is there, and the manifest does not list it
    SIZE = "size"  # it has another number of bytes
    DIGEST = "digest"  # it has other bytes
    UNREADABLE = "unreadable"  # the storage does not give its content


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that is not as it was saved. `path`: below the savepoint's folder."""

    path: str
    fault: Fault
    observed: str
    expected: str


def file_faults(
    files: tuple[SavedFile, ...], there: Mapping[str, int], digest: Callable[[str], str]
) -> Iterator[FileFault]:
    """The faults, by path. A file of another size is not read.

    Args:
        there: path -> bytes of every file in the savepoint's folder.
        digest: reads the file of this path and returns its SHA-256. Raises OSError.
    """
    for file in sorted(files, key=lambda file: file.path):
        if file.path not in there:
            yield FileFault(file.path, Fault.MISSING, "no such file", f"{file.size:,} bytes")
        elif there[file.path] != file.size:
            yield FileFault(file.path, Fault.SIZE, f"{there[file.path]:,} bytes", f"{file.size:,} bytes")
        else:
            yield from _content_faults(file, digest)
    for path in sorted(path for path in there.keys() - {file.path for file in files} if not is_own(path)):
        yield FileFault(path, Fault.EXTRA, f"{there[path]:,} bytes", "no such file")


def _content_faults(file: SavedFile, digest: Callable[[str], str]) -> Iterator[FileFault]:
    try:
        actual = digest(file.path)
    except OSError as error:
        yield FileFault(file.path, Fault.UNREADABLE, error.strerror or str(error), f"SHA-256 {file.sha256}")
        return
    if actual != file.sha256:
        yield FileFault(file.path, Fault.DIGEST, f"SHA-256 {actual}", f"SHA-256 {file.sha256}")
