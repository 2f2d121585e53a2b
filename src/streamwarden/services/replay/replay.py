"""Replays the flights of 2013 as JSON-lines files, in the order in which they really departed, at a chosen speed-up.

The event time is the scheduled departure, so a delay in the real world is lateness in the stream. For a stream that
reads flights and weather, both are published, each into its own folder, on one clock.

Each file is written under a hidden name in the same folder, synced, and published by a rename: a reader sees a whole
file or none, and Spark ignores the hidden name. Which flights are in which file depends on `rows_per_file` alone, so a
replay that was killed goes on where it was: files that exist are skipped. A lock, freed by the kernel if its holder
dies, keeps a second replay out of the same folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden import disk
from streamwarden.errors import ConfigError
from streamwarden.services.replay.flights import departures, observations

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_FILE: Final = 500
"""About thirteen hours of departures; 674 files for the year."""

OBSERVATIONS_PER_FILE: Final = 39
"""Thirteen hours of weather at three airports."""

PARTS: Final = ("flights", "weather")
"""What can be replayed; also the names of the folders, where there is more than one."""

_SETTINGS: Final = ".replay.json"
_LOCK: Final = ".replay.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStats:
    """Result of a replay. `flights`, `cancelled`, `observations` count the files written now and the skipped ones.

    Args:
        first, last: instants of the first and last event in order of departure, Unix seconds; None without events.
        seconds: how long the publishing took (reading the data set apart).
    """

    files_written: int
    files_skipped: int
    flights: int
    cancelled: int
    observations: int
    first: float | None
    last: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _File:
    """A file to publish: the rows that go into it, and the instants (Unix seconds) of the first and last of them."""

    target: Path
    rows: pd.DataFrame
    first: float
    last: float


def replay(
    into: Path,
    *,
    parts: Sequence[str] = (),
    speedup: float | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    limit: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayStats:
    """Publish the flights into the folder `into` (created if missing) and report the counts.

    Args:
        parts: the folders below `into` to fill, of `PARTS`; none: flights go into `into` itself.
        speedup: event seconds a second; a file is published when its last flight has departed on that clock, which
            starts at the first missing file. None: as fast as possible.
        rows_per_file: fixed by the first replay into a folder.
        limit: stop after the file that reaches this many flights: files are always whole. Weather goes as far.
        clock, sleep: a monotonic clock in seconds, and how to wait.

    Raises ConfigError for values out of range, a part that is not known, another `rows_per_file` than the folder's, or
    a replay that is running.
    """
    validate(speedup, rows_per_file, limit)
    _require_known(parts)
    into.mkdir(parents=True, exist_ok=True)
    with _only_one(into):
        _agree_on_rows_per_file(into, rows_per_file)
        return _publish_all(_files(into, parts, rows_per_file, limit), speedup, clock, sleep)


def _files(into: Path, parts: Sequence[str], rows_per_file: int, limit: int | None) -> list[_File]:
    """Everything to be published, in the order of publishing: by the last instant in it."""
    flights = departures()
    if limit is not None:
        flights = flights.head(-(-limit // rows_per_file) * rows_per_file)
    if not parts:
        return _cut(flights, into, "flights", rows_per_file)
    files = []
    if "flights" in parts:
        files += _cut(flights, into / "flights", "flights", rows_per_file)
    if "weather" in parts:
        weather = observations()
        if limit is not None:
            weather = weather[weather["order"] <= flights["order"].max()]
        files += _cut(weather, into / "weather", "weather", OBSERVATIONS_PER_FILE)
    return sorted(files, key=lambda file: file.last)


def _cut(events: pd.DataFrame, folder: Path, name: str, rows_per_file: int) -> list[_File]:
    folder.mkdir(parents=True, exist_ok=True)
    instants = seconds_of(events["order"])
    events = events.drop(columns="order")
    files = []
    for start in range(0, len(events), rows_per_file):
        end = min(start + rows_per_file, len(events)) - 1
        target = folder / f"{name}-{start:06d}-{end:06d}.json"
        rows = events.iloc[start : end + 1]
        files.append(_File(target, rows, float(instants.iloc[start]), float(instants.iloc[end])))
    return files


def _publish_all(
    files: Sequence[_File], speedup: float | None, clock: Callable[[], float], sleep: Callable[[float], None]
) -> ReplayStats:
    started = clock()
    written = skipped = 0
    newest = 0
    origin: tuple[float, float] | None = None  # event instant and clock reading at the first file to be written
    for file in files:
        if file.target.exists():
            newest = max(newest, _milliseconds(file.target.stat().st_mtime_ns))
            skipped += 1
            continue
        if speedup is not None:
            origin = origin or (file.first, clock())
            due = origin[1] + (file.last - origin[0]) / speedup
            while (wait := due - clock()) > 0:
                sleep(wait)
        newest = _publish(file.rows.to_json(orient="records", lines=True), file.target, after=newest)
        written += 1
    flights = [file.rows for file in files if "flight_id" in file.rows]
    return ReplayStats(
        files_written=written,
        files_skipped=skipped,
        flights=sum(map(len, flights)),
        cancelled=sum(int(rows["departed_at"].isna().sum()) for rows in flights),
        observations=sum(len(file.rows) for file in files) - sum(map(len, flights)),
        first=min((file.first for file in files), default=None),
        last=max((file.last for file in files), default=None),
        seconds=clock() - started,
    )


_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def seconds_of(instants: pd.Series[pd.Timestamp]) -> pd.Series[float]:
    """Timestamps as Unix seconds."""
    return instants.astype("int64") / _UNITS_PER_SECOND[instants.dt.unit]


def _publish(text: str, target: Path, *, after: int = 0) -> int:
    """Make `target` appear whole. A hidden leftover of a killed replay is overwritten: it has the same name.

    Returns the millisecond of its modification, which is later than `after`: Spark reads files in the order of these
    milliseconds, and two files of the same one in any order.
    """
    with disk.replacing(target, part=target.with_name(f".{target.name}.part")) as file:
        file.write(text.encode())
        file.flush()
        modified = _milliseconds(os.fstat(file.fileno()).st_mtime_ns)
        if modified <= after:
            modified = after + 1
            os.utime(file.fileno(), ns=(modified * 1_000_000, modified * 1_000_000))
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself survives a power failure too
    finally:
        os.close(folder)
    return modified


def _milliseconds(nanoseconds: int) -> int:
    return nanoseconds // 1_000_000


def validate(speedup: float | None, rows_per_file: int, limit: int | None) -> None:
    """Raises ConfigError for a value out of range."""
    for name, value, allowed in (
        ("speedup", speedup, speedup is None or 0 < speedup < float("inf")),
        ("rows_per_file", rows_per_file, rows_per_file >= 1),
        ("limit", limit, limit is None or limit >= 1),
    ):
        if not allowed:
            raise ConfigError(
                f"{name} is {value}", expected="a positive number", where="replay", next_step=f"correct {name}"
            )


def _require_known(parts: Sequence[str]) -> None:
    for part in parts:
        if part not in PARTS:
            raise ConfigError(
                f"there is nothing to replay for the part {part!r}",
                expected=f"parts of the source: {', '.join(PARTS)}",
                where="replay",
                next_step="publish its files yourself: written under a hidden name, then renamed",
            )


@contextmanager
def _only_one(into: Path) -> Iterator[None]:
    with disk.locked(into / _LOCK, wait=0) as lock:
        if lock is None:
            raise ConfigError(
                "another replay is writing into this folder",
                expected="one replay a folder",
                where=str(into),
                next_step="wait for it, stop it, or replay into another folder",
            )
        yield


def _agree_on_rows_per_file(into: Path, rows_per_file: int) -> None:
    settings = into / _SETTINGS
    if not settings.exists():
        _publish(json.dumps({"rows_per_file": rows_per_file}) + "\n", settings)
        return
    agreed = json.loads(settings.read_text(encoding="utf-8"))["rows_per_file"]
    if agreed != rows_per_file:
        raise ConfigError(
            f"rows_per_file is {rows_per_file}",
            expected=f"{agreed}, as in the replay that began here: otherwise flights would be published twice",
            where=str(into),
            next_step=f"use rows_per_file={agreed}, or replay into another folder",
        )
