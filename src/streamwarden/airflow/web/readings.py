"""What of the rows is read again, and when.

The status of a stream is read again as soon as a mark of it changes, its driver's process is gone or somebody acts on
incidents: of that stream alone, if they are few. The numbers of running streams, which change with each batch, and the
rest, such as the verdicts of an evaluation, follow as often as their share of a core allows: at once in a small fleet,
every ten seconds to some minutes in one of a thousand streams.
"""

import math
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from streamwarden.health.evaluations import LastRound
from streamwarden.lifecycle.queries import owner
from streamwarden.services.overview.rows import StreamRow

WHOLE_SHARE: Final = 0.006
"""Share of a core that reading everything may take, while nothing but numbers and verdicts changes."""
NUMBERS_SHARE: Final = 0.006
LOOK_SHARE: Final = 0.005
"""Share of a core that looking for changes may take."""
FEW: Final = 50
"""Streams that are read by themselves; if more have changed, everything is read."""
LOOK_AGAIN: Final = 60.0
"""Seconds after which everything is read again although nothing in the store has changed and every process of this host
lives: a lease of another host may have expired, and the mean of five minutes moves."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows as they were at `at` (Unix seconds), when the streams were last judged, and for how many seconds the
    thread that read this computed. Snapshots with the same `reading` say the same."""

    at: float
    rows: tuple[StreamRow, ...]
    last: LastRound
    cost: float = 0.0
    reading: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What tells whether the rows have changed.

    Args:
        version: of the store; None if a change of it cannot be seen without reading.
        common: whatever concerns many streams: the project's files, pauses of DAGs, what people did about incidents.
        marks: stream -> what changes with its status.
        last: the last evaluation.
    """

    version: object
    common: object
    marks: Mapping[str, object]
    last: LastRound


class Pace:
    """When something may be computed again, for it to take `share` of a core. The shorter one of two times in a row
    counts: the first one of a process loads code, which takes longer than all that the next ones do."""

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self._share, self._clock = share, clock
        self._took, self._next = 0.0, -math.inf

    def allows(self) -> bool:
        return self._clock() >= self._next

    def took(self, seconds: float) -> None:
        """It was computed, which took `seconds` of processor time."""
        self._next = self._clock() + min(self._took, seconds) / self._share
        self._took = seconds


class Paced(Generic[T]):
    """Calls `read` only so often that it takes `share` of a core; in between it returns what that returned last.

    Args:
        computed: seconds that this thread has computed.
    """

    def __init__(
        self,
        read: Callable[[], T],
        share: float,
        clock: Callable[[], float] = time.time,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        self._read, self._computed, self._pace = read, computed, Pace(share, clock)
        self._kept: tuple[T] | None = None

    def __call__(self) -> T:
        if self._kept is None or self._pace.allows():
            began = self._computed()
            self._kept = (self._read(),)
            self._pace.took(self._computed() - began)
        return self._kept[0]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads from the store and from this host.

    Args:
        whole: every row.
        some: the rows of these streams and of their queries.
        numbers: these rows with the numbers of their newest batches.
        look: what tells whether anything has changed.
        processes: the ids of the processes of this host.
    """

    whole: Callable[[], Snapshot]
    some: Callable[[Collection[str]], tuple[StreamRow, ...]]
    numbers: Callable[[tuple[StreamRow, ...]], tuple[StreamRow, ...]]
    look: Callable[[], Seen]
    processes: Callable[[], frozenset[str]]


class Readings:
    """Reads as much of the rows as may have changed."""

    def __init__(
        self,
        reader: Reader,
        clock: Callable[[], float] = time.time,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        self._reader, self._clock, self._computed = reader, clock, computed
        self._kept: Snapshot | None = None
        self._seen: Seen | None = None
        self._lived: Mapping[str, str] = {}
        self._whole_of: object = None
        self._numbered: object = None
        self._whole_at = -math.inf
        self._whole_pace, self._numbers_pace = Pace(WHOLE_SHARE, clock), Pace(NUMBERS_SHARE, clock)
        self._name, self._changes = secrets.token_hex(4), 0  # of this process: another one has read other rows

    def __call__(self) -> Snapshot:
        """The rows; the same ones with a newer time while nothing has changed. Raises StreamwardenError."""
        began, now, seen = self._computed(), self._clock(), self._reader.look()
        processes = self._reader.processes()  # before the rows are read: one that dies meanwhile is missed next time
        rows = self._rows(seen, now, processes)
        if rows is None:
            whole = self._reader.whole()
            rows, same = whole.rows, self._kept is not None and self._kept.rows == whole.rows
            self._whole_at, self._whole_of, self._numbered = now, seen.version, seen.version
            self._whole_pace.took(self._computed() - began)
        else:
            same = self._kept is not None and _are_the_same(rows, self._kept.rows)
        return self._keep(Snapshot(now, rows, seen.last, self._computed() - began), seen, processes, same=same)

    def _keep(self, snapshot: Snapshot, seen: Seen, processes: frozenset[str], *, same: bool) -> Snapshot:
        before = self._kept
        unchanged = before is not None and same and _round(before) == _round(snapshot)
        self._changes += not unchanged
        self._kept = replace(snapshot, reading=f"{self._name}-{self._changes}")
        self._seen = seen
        if before is None or not same:
            self._lived = living(snapshot.rows, processes | self._reader.processes())
        return self._kept

    def _rows(self, seen: Seen, now: float, processes: frozenset[str]) -> tuple[StreamRow, ...] | None:
        """The rows as they are now; None if everything has to be read."""
        before, kept = self._seen, self._kept
        if before is None or kept is None or seen.common != before.common or not now - self._whole_at >= 0:
            return None
        changed = self._changed(before, seen, processes)
        if len(changed) > FEW or self._is_due(seen, now):
            return None
        if changed:
            return _merged(kept.rows, changed, self._reader.some(changed))
        return self._numbers(kept.rows, seen)

    def _changed(self, before: Seen, seen: Seen, processes: frozenset[str]) -> frozenset[str]:
        """The streams whose status may have changed."""
        gone = {stream for stream, pid in self._lived.items() if pid not in processes}
        if seen.marks is before.marks:
            return frozenset(gone)
        names = seen.marks.keys() | before.marks.keys()
        return frozenset(gone | {name for name in names if seen.marks.get(name) != before.marks.get(name)})

    def _is_due(self, seen: Seen, now: float) -> bool:
        """Whether everything is read again for the sake of what has no mark."""
        changed = seen.version is None or seen.version != self._whole_of
        return self._whole_pace.allows() and (changed or now - self._whole_at > LOOK_AGAIN)

    def _numbers(self, rows: tuple[StreamRow, ...], seen: Seen) -> tuple[StreamRow, ...]:
        if not self._numbers_pace.allows() or (seen.version is not None and seen.version == self._numbered):
            return rows
        began = self._computed()
        rows = self._reader.numbers(rows)
        self._numbered = seen.version
        self._numbers_pace.took(self._computed() - began)
        return rows


def _are_the_same(rows: tuple[StreamRow, ...], before: tuple[StreamRow, ...]) -> bool:
    """Whether no row was replaced: quicker than to compare what they say."""
    return len(rows) == len(before) and all(one is other for one, other in zip(rows, before, strict=True))


def living(rows: Iterable[StreamRow], processes: frozenset[str]) -> Mapping[str, str]:
    """Stream -> the process of its driver, if it is one of these. A reading finds out whether it is the same one; this
    is quick, and changes when it dies. Pure."""
    return {owner(row.stream): str(row.pid) for row in rows if str(row.pid) in processes}


def _round(snapshot: Snapshot) -> tuple[object, ...]:
    """The last evaluation without its age."""
    return snapshot.last.at, snapshot.last.late


def _merged(rows: tuple[StreamRow, ...], changed: Collection[str], fresh: Iterable[StreamRow]) -> tuple[StreamRow, ...]:
    """`rows` with the fresh ones in the place of those of the streams that have changed."""
    groups: dict[str, list[StreamRow]] = {owner(row.stream): [] for row in rows}
    for row in (*(row for row in rows if owner(row.stream) not in changed), *fresh):
        groups.setdefault(owner(row.stream), []).append(row)
    return tuple(row for group in groups.values() for row in group)
