"""Prints a log, line by line, while it grows."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from streamwarden.services.fleet.exits.log_tail import LogTail

POLL: Final = 0.5
"""Seconds between two reads of the file."""


def follow(
    path: Path, *, ended: Callable[[], bool], to: IO[str] | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Print what is added to `path` until `ended()`, with all that was written before the end."""
    out = sys.stdout if to is None else to
    tail = LogTail(path, start=path.stat().st_size if path.exists() else 0)
    while True:
        last = ended()  # asked before reading: what was written before the end is still printed
        out.writelines(f"{line}\n" for line in tail.read_all(final=last))
        out.flush()
        if last:
            return
        sleep(POLL)
