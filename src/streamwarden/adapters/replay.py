"""Replays the flights of 2013 as JSON-lines files, in the order in which they really departed, at a chosen speed-up.

The event time is the scheduled departure, so a delay in the real world is lateness in the stream.

Each file is written under a hidden name in the same folder, synced, and published by a rename: a reader sees a whole
file or none, and Spark ignores the hidden name. Which flights are in which file depends on `rows_per_file` alone, so a
replay that was killed goes on where it was: files that exist are skipped. A lock, freed by the kernel if its holder
dies, keeps a second replay out of the same folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.flights import departures
from streamwarden.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_FILE: Final = 500
"""About thirteen hours of departures; 674 files for the year."""

_SETTINGS: Final = ".replay.json"
_LOCK: Final = ".replay.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStats:
    """What a replay did. `flights` and `cancelled` count the files written now and the skipped ones.

    Args:
        first, last: instants of the first and last event in order of departure, Unix seconds; None without events.
        seconds: how long the publishing took (reading the data set apart).
    """

    files_written: int
    files_skipped: int
    flights: int
    cancelled: int
    first: float | None
    last: float | None
    seconds: float


def replay(
    into: Path,
    *,
    speedup: float | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    limit: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayStats:
    """Publish the flights into the folder `into` (made if need be) and say what was done.

    Args:
        speedup: event seconds a second; a file is published when its last flight has departed on that clock, which
            starts at the first file that is not there yet. None: as fast as possible.
        rows_per_file: fixed by the first replay into a folder.
        limit: stop after the file that reaches this many flights: files are always whole.
        clock, sleep: a monotonic clock in seconds, and how to wait.

    Raises ConfigError for values out of range, another `rows_per_file` than the folder's, or a replay that is running.
    """
    _validate(speedup, rows_per_file, limit)
    into.mkdir(parents=True, exist_ok=True)
    with _only_one(into):
        _agree_on_rows_per_file(into, rows_per_file)
        return _publish_all(departures(), into, speedup, rows_per_file, limit, clock, sleep)


def _publish_all(
    events: pd.DataFrame,
    into: Path,
    speedup: float | None,
    rows_per_file: int,
    limit: int | None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> ReplayStats:
    if limit is not None:
        events = events.head(-(-limit // rows_per_file) * rows_per_file)
    instants = events["order"].astype("int64") / _UNITS_PER_SECOND[events["order"].dt.unit]
    events = events.drop(columns="order")
    started = clock()
    written = skipped = 0
    newest = 0
    origin: tuple[float, float] | None = None  # event instant and clock reading at the first file to be written
    for start in range(0, len(events), rows_per_file):
        part = events.iloc[start : start + rows_per_file]
        target = into / f"flights-{start:06d}-{start + len(part) - 1:06d}.json"
        if target.exists():
            newest = _milliseconds(target.stat().st_mtime_ns)
            skipped += 1
            continue
        if speedup is not None:
            origin = origin or (float(instants.iloc[start]), clock())
            due = origin[1] + (float(instants.iloc[start + len(part) - 1]) - origin[0]) / speedup
            while (wait := due - clock()) > 0:
                sleep(wait)
        newest = _publish(part.to_json(orient="records", lines=True), target, after=newest)
        written += 1
    return ReplayStats(
        files_written=written,
        files_skipped=skipped,
        flights=len(events),
        cancelled=int(events["departed_at"].isna().sum()),
        first=float(instants.iloc[0]) if len(events) else None,
        last=float(instants.iloc[-1]) if len(events) else None,
        seconds=clock() - started,
    )


_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _publish(text: str, target: Path, *, after: int = 0) -> int:
    """Make `target` appear whole. A hidden leftover of a killed replay is overwritten: it has the same name.

    Returns the millisecond of its modification, which is later than `after`: Spark reads files in the order of these
    milliseconds, and two files of the same one in any order.
    """
    hidden = target.with_name(f".{target.name}.part")
    with hidden.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        modified = _milliseconds(os.fstat(file.fileno()).st_mtime_ns)
        if modified <= after:
            modified = after + 1
            os.utime(file.fileno(), ns=(modified * 1_000_000, modified * 1_000_000))
        os.fsync(file.fileno())
    hidden.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself survives a power failure too
    finally:
        os.close(folder)
    return modified


def _milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 1_000_000


def _validate(speedup: float | None, rows_per_file: int, limit: int | None) -> None:
    for name, value, allowed in (
        ("speedup", speedup, speedup is None or 0 < speedup < float("inf")),
        ("rows_per_file", rows_per_file, rows_per_file >= 1),
        ("limit", limit, limit is None or limit >= 1),
    ):
        if not allowed:
            raise ConfigError(
                f"{name} is {value}", expected="a positive number", where="replay", next_step=f"correct {name}"
            )


@contextmanager
def _only_one(into: Path) -> Iterator[None]:
    with (into / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                "another replay is writing into this folder",
                expected="one replay a folder",
                where=str(into),
                next_step="wait for it, stop it, or replay into another folder",
            ) from None
        yield


def _agree_on_rows_per_file(into: Path, rows_per_file: int) -> None:
    settings = into / _SETTINGS
    if not settings.exists():
        _publish(json.dumps({"rows_per_file": rows_per_file}) + "\n", settings)
        return
    known = json.loads(settings.read_text(encoding="utf-8"))["rows_per_file"]
    if known != rows_per_file:
        raise ConfigError(
            f"rows_per_file is {rows_per_file}",
            expected=f"{known}, as in the replay that began here: otherwise flights would be published twice",
            where=str(into),
            next_step=f"use rows_per_file={known}, or replay into another folder",
        )
