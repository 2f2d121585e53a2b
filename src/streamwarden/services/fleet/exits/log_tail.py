"""Reads the end of a driver's log, and follows it while it grows. What a job printed is shown without secrets."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.adapters.processes import this_host
from streamwarden.clusters import manager_of
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.redaction import redacted_text, remember, secrets_of
from streamwarden.services.fleet.exits.cleaning import KEPT_FOLDERS
from streamwarden.stream.spark import DeployMode

CHUNK: Final = 64 * 1024
"""Bytes that one read returns at most: a driver that writes faster must not fill the task's log or the triggerer's
memory."""

BEHIND: Final = 4 * 2**20
"""Bytes of backlog after which a task skips the middle, with a line that says so."""


def last_text(log: Path, size: int = CHUNK) -> str:
    """The last `size` bytes of a log; empty if there is no such file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - size))
            return redacted_text(file.read().decode("utf-8", errors="replace"))
    except OSError:
        return ""


def end_of_log(record: DriverRecord, count: int, *, most: int | None = None) -> Sequence[str]:
    """The last `count` lines of the driver's log, of its last `most` bytes at most, with their line ends.

    Raises ProcessError if the log cannot be read here: the driver ran on another host, or its folder was removed.
    """
    folder = Path(record.folder)
    document = files.read_spec(folder) or {}
    remember(*secrets_of(document))  # the log may repeat one of them
    try:
        return last_lines(folder / files.LOG, count, most)
    except OSError as error:
        raise ProcessError(
            f"the log cannot be read here: {error.strerror}",
            where=str(folder / files.LOG),
            next_step=_where_to_look(record.process, document.get("spark") or {}),
        ) from error


def _where_to_look(process: ProcessIdentity | None, spark: Mapping[str, Any]) -> str:
    in_cluster = manager_of(spark.get("master", "")).in_cluster
    if in_cluster is not None and spark.get("deploy_mode") == DeployMode.CLUSTER:
        return f"read it in the cluster: `{in_cluster.log}`"
    if process is not None and process.host != this_host():
        return f"read it on the driver's host, {process.host.partition('/')[0]}"
    return (
        f"the folders of the newest {KEPT_FOLDERS} ended drivers of a stream are kept: read the log of a newer driver"
    )


def last_lines(log: Path, count: int, most: int | None = None) -> Sequence[str]:
    """The last `count` lines of a log, with their line ends, of its last `most` bytes at most. It is read from its end,
    and redacted as one text: a secret may span lines. Raises OSError."""
    with log.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        least = 0 if most is None else max(0, at - most)
        text = b""
        while at > least and text.count(b"\n") <= count:
            size = min(max(CHUNK, len(text)), at - least)  # twice as much each time
            at -= size
            file.seek(at)
            text = file.read(size) + text
    return tuple(deque(StringIO(redacted_text(text.decode("utf-8", errors="replace"))), maxlen=count))


class LogTail:
    """The lines that were added to a growing log since the last read. One reader at a time.

    Args:
        start: byte at which the first read begins.
        mark: a file that keeps the offset across processes. It is written before the lines are handed out: after a
            crash a few lines may be missing (they are in the log), and none appears twice.
        behind: bytes of backlog after which the middle is skipped; None: nothing is skipped.
    """

    def __init__(self, log: Path, *, start: int = 0, mark: Path | None = None, behind: int | None = None) -> None:
        self._log = log
        self._mark = mark
        self._behind = behind
        self._shown: int | None = start if mark is None else None

    @classmethod
    def resumed(cls, log: Path) -> LogTail:
        """Resumes from the mark file beside the log; skips ahead if it is more than `BEHIND` bytes behind."""
        return cls(log, mark=log.with_name(log.name + ".shown"), behind=BEHIND)

    def read(self, *, final: bool = False) -> Sequence[str]:
        """New complete lines, of `CHUNK` bytes at most; with `final` also an unfinished last line. A missing log has
        none. Raises OSError."""
        try:
            size = self._log.stat().st_size
            if size == self._shown:
                return ()  # nearly always: one system call a read
            offset = self._offset()
            with self._log.open("rb") as file:
                skipped = 0
                if size < offset:  # the log was replaced
                    offset = 0
                if self._behind is not None and size - offset > self._behind:
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
        if self._mark is not None:
            disk.replace(self._mark, str(self._shown), mode=disk.PRIVATE, durable=False)
        lines = redacted_text(data.decode("utf-8", errors="replace")).splitlines()
        if skipped:
            lines.insert(0, f"… {skipped} bytes were skipped, the whole log is {self._log}")
        return lines

    def read_all(self, *, final: bool = False) -> Iterator[str]:
        """Every new line, however many there are. Raises OSError."""
        while lines := self.read(final=final):
            yield from lines

    def _offset(self) -> int:
        if self._shown is not None or self._mark is None:
            return self._shown or 0
        try:
            return int(self._mark.read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0
