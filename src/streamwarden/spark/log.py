"""Lines of Streamwarden in the driver's log."""

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final

LOG_LIMIT: Final = 64 * 10**6
"""Bytes of driver.log before it is put aside; one old file is kept."""


def say(text: str) -> None:
    """Write a line to the driver's log, at once."""
    print(f"streamwarden: {text}", file=sys.stderr, flush=True)


def cap_log(log: Path, limit: int = LOG_LIMIT) -> bool:
    """Move a log that outgrew `limit` to `NAME.1` and empty it; its writers append, so they continue."""
    try:
        if log.stat().st_size <= limit:
            return False
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)
    except OSError:  # no room for the copy: the log is worth less than the disk
        with contextlib.suppress(OSError):
            os.truncate(log, 0)
        return False
    return True
