"""A log file, line by line, while it grows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

POLL: Final = 0.5
"""Seconds between two looks at the file."""


class LogTail:
    """What was added to a file since the last look."""

    def __init__(self, path: Path, *, from_end: bool = True) -> None:
        self._path = path
        self._position = path.stat().st_size if from_end and path.exists() else 0

    def more(self) -> str:
        """The new text; empty if there is none, or no file yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                raw = file.read()
        except FileNotFoundError:
            return ""
        self._position += len(raw)
        return raw.decode("utf-8", errors="replace")


def follow(
    path: Path, *, ended: Callable[[], bool], to: IO[str] | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Print what is added to `path` until `ended()`, with all that was written before the end."""
    out = sys.stdout if to is None else to
    tail = LogTail(path)
    while True:
        last = ended()  # asked before reading: what was written before the end is still printed
        out.write(tail.more())
        out.flush()
        if last:
            return
        sleep(POLL)
