"""The oracle of `device_heartbeats`: the whole history of each session, cut into runs, and the grid laid over them.

Written from the question, not from the job, and shares no code with it: no timers, no state that is carried on. First
all readings of a session are collected, then they are cut where it was silent for too long; a job that sees one batch
after another must come to the same. With time=event the answer is exact whatever the batches were, but for the readings
that were too late; by the clock a reading's time is that of its batch.

The question: each device has a grid of moments, `heartbeat` apart: those whose distance from the CRC-32 of its id (Unix
ms) is a multiple of it. With `buckets`, devices whose CRC-32 has the same remainder share a grid, and these grids are
spread evenly over a heartbeat. A session is active from its first reading until it is silent for longer than
`inactive`. At each moment of the grid, for each active session: how many readings has it had, how many since its last
row, what was its last state? For each session that ended: the same once more, at the end of the silence. Sessions of a
device are numbered in their order, from one again when it was forgotten: by the clock with `state.ttl`, that long after
the batch in which its last session began was due; else at the first moment of the grid at which none is active. A row
comes out in the first batch whose clock (its own time, or its watermark) has passed the moment of the grid at which it
is due. Left out is what is later than `late`, and a line that is not a valid reading: not a JSON object, a field of
another type or missing, or (by events' time) a time more than an hour ahead of its file.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.clock import replay_by_clock
from streamwarden.verification.lines import fields, instant, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HOUR: Final = 3_600_000
_TEXTS: Final = {"device_id": text, "session_id": text, "state": text}


class Reading(NamedTuple):
    """A line of the input. Readings of one time are in the order of session and state."""

    at: int
    session: str
    state: str
    device: str


def decode(line: str) -> Reading | None:
    """A reading without a time of its own; None if the line is not one."""
    found = fields(line, _TEXTS)
    if found is None or None in found.values():
        return None
    return Reading(0, str(found["session_id"]), str(found["state"]), str(found["device_id"]))


def decode_timed(line: str) -> Reading | None:
    """A reading with its time; None if the line is not one."""
    found = fields(line, {**_TEXTS, "event_time": instant})
    if found is None or None in found.values() or not isinstance(at := found["event_time"], int):
        return None
    return Reading(at, str(found["session_id"]), str(found["state"]), str(found["device_id"]))


@dataclass(frozen=True)
class _Rules:
    heartbeat: int
    inactive: int
    late: int
    by_event: bool
    ttl: float | None
    buckets: int

    def next(self, device: str, at: int) -> int:
        """The first moment of the device's grid that is not before `at`."""
        phase = zlib.crc32(device.encode())
        if self.buckets:
            phase = phase % self.buckets * self.heartbeat // self.buckets
        return -((phase - at) // self.heartbeat) * self.heartbeat + phase


def _rules(facts: RunFacts) -> _Rules:
    given = {"heartbeat": "30s", "inactive": "2m", "late": "1m", "time": "processing", "buckets": "0"}
    given |= dict(arg.split("=", 1) for arg in facts.args)
    return _Rules(
        heartbeat=_milliseconds(given["heartbeat"]),
        inactive=_milliseconds(given["inactive"]),
        late=_milliseconds(given["late"]),
        by_event=given["time"] == "event",
        ttl=facts.ttl,
        buckets=int(given["buckets"]),
    )


def _milliseconds(duration: str) -> int:
    number, unit = [*re.findall(r"[0-9.]+|[a-z]+", duration.lower()), "s"][:2]
    return round(float(number) * _MS["ms" if unit.startswith(("ms", "mil")) else unit[0]])


@dataclass(frozen=True, slots=True)
class _History:
    """What was read, in the order in which it counts, and what became of the rest.

    Args:
        batches, clocks: the committed batches, and the time that each of them has passed.
    """

    readings: Sequence[Reading]
    batches: Sequence[int]
    clocks: Sequence[int]
    records: int
    malformed: int
    dropped: int
    problems: tuple[str, ...]

    def teller(self, at: int) -> int | None:
        """Position of the first batch whose clock has reached `at`; None: none has yet."""
        found = bisect_left(self.clocks, at)
        return found if found < len(self.batches) else None


@dataclass(slots=True)
class _Run:
    """An unbroken run of readings of one session."""

    device: str
    session: str
    readings: list[Reading]
    number: int = 0
    due: int = 0

    @property
    def began(self) -> int:
        return self.readings[0].at


_TYPES: Final = {
    "device_id": "STRING",
    "session_id": "STRING",
    "kind": "STRING",
    "at": "TIMESTAMP",
    "number": "BIGINT",
    "started_at": "TIMESTAMP",
    "readings": "BIGINT",
    "added": "BIGINT",
    "state": "STRING",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `device_heartbeats` over `inputs`."""
    rules = _rules(facts)
    history = _by_event(inputs, facts, rules) if rules.by_event else _by_clock(inputs, facts)
    rows: dict[Key, Values] = {}
    emitted = before = open_ = 0
    for device, runs in _runs(history.readings, rules).items():
        _number(device, runs, history, rules)
        for run in runs:
            counted = 0
            for at, told_at, kind in _moments(run, rules):
                teller = history.teller(told_at)
                if teller is None:
                    break
                until = [reading for reading in run.readings if reading.at <= told_at]
                added, counted = len(until) - counted, len(until)
                if history.batches[teller] < facts.first:
                    before += added
                    continue
                emitted += added
                rows[device, run.session, moment(at), kind] = (
                    run.number,
                    moment(run.began),
                    counted,
                    added,
                    until[-1].state,
                )
            open_ += len(run.readings) - counted
    return Expectation(
        key_columns=("device_id", "session_id", "at", "kind"),
        value_columns=("number", "started_at", "readings", "added", "state"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=history.records,
            malformed=history.malformed,
            pairs=emitted + before + open_ + history.dropped,
            dropped=history.dropped,
            emitted=emitted,
            emitted_before=before,
            open=open_,
        ),
        count_column="added",
        problems=history.problems,
        notes={"batches": len(history.batches), "input_files": len(inputs), "late_rows": history.dropped},
    )


def _by_clock(inputs: Sequence[Path], facts: RunFacts) -> _History:
    run = replay_by_clock(inputs, facts, decode=decode)
    return _History(
        readings=[reading._replace(at=tick.at) for tick in run.ticks for reading in tick.rows],
        batches=[tick.batch for tick in run.ticks],
        clocks=[tick.at for tick in run.ticks],
        records=run.records,
        malformed=run.malformed,
        dropped=run.unread,
        problems=run.problems,
    )


def _by_event(inputs: Sequence[Path], facts: RunFacts, rules: _Rules) -> _History:
    run = replay_input(inputs, facts, decode=decode_timed, at=lambda row: row.at, delay=rules.late, not_after=_HOUR)
    steps = [step for step in run.steps() if step.batch <= run.committed]
    return _History(
        readings=sorted(row for step in steps for row in step.rows if row.at > step.closed),
        batches=[step.batch for step in steps],
        clocks=[step.mark for step in steps],
        records=run.records,
        malformed=run.malformed,
        dropped=sum(row.at <= step.closed for step in steps for row in step.rows),
        problems=run.problems,
    )


def _runs(readings: Sequence[Reading], rules: _Rules) -> Mapping[str, list[_Run]]:
    """Device -> its runs, in the order in which they began."""
    found: dict[str, list[_Run]] = defaultdict(list)
    newest: dict[tuple[str, str], _Run] = {}
    for reading in readings:
        name = reading.device, reading.session
        run = newest.get(name)
        if run is None or reading.at - run.readings[-1].at > rules.inactive:
            run = newest[name] = _Run(*name, [])
            found[reading.device].append(run)
        run.readings.append(reading)
        run.due = reading.at + rules.inactive
    return found


def _moments(run: _Run, rules: _Rules) -> Iterator[tuple[int, int, str]]:
    """(the row's time, the moment of the grid at which it is due, kind) of all rows of a run, in their order."""
    at = rules.next(run.device, run.began)
    while at <= run.due:
        yield at, at, "HEARTBEAT"
        at += rules.heartbeat
    yield run.due, at, "END"


def _number(device: str, runs: Sequence[_Run], history: _History, rules: _Rules) -> None:
    """Number the runs of a device, in the order in which they began."""
    count = 0
    over = 0  # the moment of the grid that tells the end of the last of the runs so far
    teller, told_at = None, 0  # the batch that told the newest beginning, and its time
    for run in runs:
        first = rules.next(device, run.began)
        if rules.ttl is None:
            count = 0 if first > over else count
        elif (now := history.teller(first)) is not None and now != teller:
            count = 0 if history.clocks[now] >= told_at + rules.ttl * 1000 else count
            teller, told_at = now, history.clocks[now]
        count += 1
        run.number = count
        over = max(over, rules.next(device, run.due + 1))
