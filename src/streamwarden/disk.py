"""How files are written: replaced whole, or one line appended in one write; and locked. Only the standard library."""

import errno
import fcntl
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Final

LOCK_POLL: Final = 0.2
"""Seconds between two tries to lock a file."""

PRIVATE: Final = 0o600
"""Mode of a file that only its owner reads."""

SHARED: Final = 0o666
"""Mode of a file that others may read as far as this process's umask lets them."""

PRIVATE_FOLDER: Final = 0o700
"""Mode of a folder that only its owner opens. Its content is private, whatever the mode of a file."""


def private_folder(path: Path, *, below: Path) -> None:
    """Create `path`, and its parents below `below`, each for its owner alone. A folder that exists keeps its mode.

    `below` itself is created with this process's umask: it may hold data for other users too. Raises OSError.
    """
    below.mkdir(parents=True, exist_ok=True)
    inner = path.relative_to(below)
    for folder in (*reversed(inner.parents), inner):
        (below / folder).mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def private_file(path: str, flags: int) -> int:
    """An `opener` for `open`, which creates a file for its owner alone."""
    return os.open(path, flags, PRIVATE)


def link_in(path: Path, *, below: Path) -> Path | None:
    """The first of `path` and its parents below `below` that is a symbolic link; None: there is none."""
    inner = path.relative_to(below)
    parts = [below / folder for folder in (*reversed(inner.parents[:-1]), inner)]
    return next((part for part in parts if part.is_symlink()), None)


def remove_folder(path: Path, *, below: Path) -> bool:
    """Remove a folder with all that is in it; False: it was not there. A symbolic link is never followed.

    Raises OSError (ELOOP) if `path`, or a folder between it and `below`, is a symbolic link.
    """
    link = link_in(path, below=below)
    if link is not None:
        raise OSError(errno.ELOOP, "a symbolic link is not followed", str(link))
    if not path.exists():
        return False
    shutil.rmtree(path)
    return True


@contextmanager
def replacing(path: Path, *, mode: int = SHARED, durable: bool = True, part: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends. A reader sees the old or the new content.

    An error in the block leaves `path` as it was, and nothing beside it. Raises OSError.

    Args:
        durable: the content is on the disk before it is visible, so that it survives a power failure.
        part: the file that is written; default: a hidden name beside `path` that no other writer uses.
    """
    part = part or path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def replace(path: Path, content: str | bytes, *, mode: int = SHARED, durable: bool = True) -> None:
    """Replace `path` by `content`; see `replacing`."""
    with replacing(path, mode=mode, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_line(path: Path, line: str) -> None:
    """Append `line`, in one write, so that several processes may append to the same private file. Raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


@contextmanager
def locked(
    path: Path, *, wait: float = math.inf, sleep: Callable[[float], None] = time.sleep
) -> Iterator[IO[str] | None]:
    """The file, created if need be and locked against other processes; None: another one kept it locked.

    The kernel unlocks it when the block ends, and when the process does, however that ends. Raises OSError.

    Args:
        wait: seconds for which it is tried again.
    """
    deadline = time.monotonic() + wait
    with open(path, "a+", opener=private_file) as file:
        while not (held := _try_to_lock(file)) and time.monotonic() < deadline:
            sleep(LOCK_POLL)
        yield file if held else None


def _try_to_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
