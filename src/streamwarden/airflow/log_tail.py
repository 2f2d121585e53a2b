"""Follows a driver's log and remembers how far it was shown, so that nothing is shown twice after a restart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CHUNK: Final = 64 * 1024
"""Bytes shown at most per look: a driver that writes faster must not fill the task's log or the triggerer's memory."""

BEHIND: Final = 4 * 2**20
"""Bytes of backlog after which the middle is skipped, with a line that says so."""


class LogTail:
    """The lines of a growing file since the last look, across processes. One reader at a time.

    The offset stands in a file beside the log, written before the lines are handed out: after a crash a few lines may
    be missing from the task's log (they are in the driver's), none appears twice.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._mark = log.with_name(log.name + ".shown")
        self._shown: int | None = None

    def read(self, *, final: bool = False) -> Sequence[str]:
        """New complete lines; with `final` also an unfinished last one. A missing log has none. Raises OSError."""
        try:
            size = self._log.stat().st_size
            if size == self._shown:
                return ()  # nearly always: one system call a look
            offset = self._offset()
            with self._log.open("rb") as file:
                skipped = 0
                if size < offset:  # the log was replaced
                    offset = 0
                if size - offset > BEHIND:
                    skipped = size - offset - CHUNK
                    offset += skipped
                file.seek(offset)
                data = file.read(CHUNK)
        except FileNotFoundError:
            return ()
        at_end = offset + len(data) >= size
        if (not (final and at_end) and len(data) < CHUNK) or (len(data) == CHUNK and b"\n" in data):
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return ()
        self._shown = offset + len(data)
        self._remember(self._shown)
        lines = data.decode("utf-8", errors="replace").splitlines()
        if skipped:
            lines.insert(0, f"… {skipped} bytes were skipped, the whole log is {self._log}")
        return lines

    def _offset(self) -> int:
        if self._shown is not None:
            return self._shown
        try:
            return int(self._mark.read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0

    def _remember(self, offset: int) -> None:
        scratch = self._mark.with_name(f"{self._mark.name}.{os.getpid()}")
        scratch.write_text(str(offset))
        scratch.replace(self._mark)
