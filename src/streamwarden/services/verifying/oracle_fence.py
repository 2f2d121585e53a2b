"""Keeps the process of an oracle away from what the run under test wrote.

Two fences stand behind each other. An audit hook of Python refuses to open or to list anything in a closed folder, and
remembers that it had to. Landlock, where the kernel has it, refuses the same to libraries that open files without
Python, such as pyarrow, and to programs that the oracle starts; Python cannot see those.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_PATH_EVENTS: Final = frozenset(
    {"open", "os.chdir", "os.link", "os.listdir", "os.rename", "os.scandir", "sqlite3.connect"}
)
"""Python's audit events whose first argument is the path that is read, or that gets another name."""

_PROGRAM_EVENTS: Final = frozenset({"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"})
"""Audit events of another program. The hook does not reach into it, and Landlock does."""

_NO_NEW_PRIVILEGES: Final = 38
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_BENEATH: Final = 1
_READ_FILE: Final = 1 << 2


class OutOfBounds(Exception):
    """The oracle tried to read what a run wrote; the text is the path, or the program that it tried to start."""


@dataclass
class Fence:
    """Closed folders, and folders inside of them that are open.

    Args:
        closed, given: folders on this host. The deepest one that holds a path decides.
        refused: what the oracle tried to read.
    """

    closed: Sequence[str]
    given: Sequence[str]
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.closed = [os.path.realpath(place) for place in self.closed]
        self.given = [os.path.realpath(place) for place in self.given]

    def holds(self, path: str) -> bool:
        """Whether the path is in a closed folder."""
        real = os.path.realpath(path)
        return _deepest(self.closed, real) > _deepest(self.given, real)

    def raise_it(self) -> bool:
        """Close the folders to this process for good; returns whether the kernel helps."""
        sealed = _seal(list(self._readable("/")))
        sys.addaudithook(lambda event, args: self._check(event, args, programs=sealed))
        return sealed

    def _check(self, event: str, args: tuple[Any, ...], *, programs: bool) -> None:
        if event in _PATH_EVENTS:
            self._check_path(args[0])
        elif event in _PROGRAM_EVENTS and not programs:
            self._refuse(str(args[0]))

    def _check_path(self, path: object) -> None:
        """A number is a file that is open already: opening it was checked."""
        if isinstance(path, int):
            return
        text = str(Path.cwd()) if path is None else os.fsdecode(path)  # type: ignore[arg-type]
        text = text.removeprefix("file:").partition("?")[0] if text.startswith("file:") else text  # SQLite's URIs
        if self.holds(text):
            self._refuse(os.path.realpath(text))

    def _refuse(self, what: str) -> None:
        self.refused.append(what)
        raise OutOfBounds(what)

    def _readable(self, folder: str) -> Iterator[str]:
        """The largest folders and files that are open as a whole, from `folder` on."""
        inside = [place for place in (*self.closed, *self.given) if place != folder and _deepest([folder], place)]
        if self.holds(folder):
            for place in inside:
                yield from self._readable(place)
        elif not inside:
            yield folder
        else:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_symlink():  # what it leads to has its own place
                        yield from self._readable(entry.path)


def _deepest(places: Sequence[str], path: str) -> int:
    """The length of the longest of these folders that is the path or holds it; 0: none does."""
    return max((len(place) for place in places if path == place or path.startswith(place.rstrip("/") + "/")), default=0)


def _seal(readable: Sequence[str]) -> bool:
    """Let this process, and those that it starts, read files below these places only. False: the kernel cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.create_string_buffer(struct.pack("=Q", _READ_FILE), 8)
    rules = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        for place in readable:
            with suppress(OSError):  # it has vanished, or is no file
                _allow(libc, rules, place)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, place: str) -> None:
    descriptor = os.open(Path(place), os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", _READ_FILE, descriptor), 12)
        libc.syscall(_ADD_RULE, rules, _BENEATH, rule, 0)
    finally:
        os.close(descriptor)
