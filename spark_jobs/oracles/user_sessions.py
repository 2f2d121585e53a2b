"""The oracle of `user_sessions`: a list of events for each id, cut where the definition says so.

Written from the question, not from the job, and shares no code with it: no timers, no state that is carried on. First
the whole history of each id is collected, then it is cut into sessions; a job that sees one batch after another must
come to the same.

The question: which sessions did each id have? An event comes at the time of its batch. A session ends with an event
that `is_last`, or when no event came for longer than the timeout of the id's client, and then at the end of that
timeout. It comes out in the batch with its last event, or in the first batch that was planned after its timeout. A line
that is not an event is left out: not a JSON object, a field of another type, or no id or data.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment
from streamwarden.verification.clock import Tick, replay_by_clock
from streamwarden.verification.lines import fields, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Event(NamedTuple):
    """A line of the input."""

    id: str
    data: str
    is_last: bool


def decode(line: str) -> Event | None:
    """An event; None if the line is not one."""
    found = fields(line, {"id": text, "data": text, "is_last": _flag})
    if found is None or found["id"] is None or found["data"] is None:
        return None
    return Event(str(found["id"]), str(found["data"]), found["is_last"] is True)


def _flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(raw)
    return raw


@dataclass(slots=True)
class _Session:
    began: int
    number: int
    last: int
    data: list[str] = field(default_factory=list)
    finished: bool = False


def _sessions(history: Sequence[tuple[int, Event]], timeout: int) -> list[_Session]:
    """The history of one id, (time, event) in order, cut into sessions."""
    cut: list[_Session] = []
    for at, event in history:
        if not cut or cut[-1].finished or at - cut[-1].last > timeout:
            same_moment = sum(each.began == at for each in cut)
            cut.append(_Session(at, same_moment, at))
        cut[-1].last = at
        cut[-1].data.append(event.data)
        cut[-1].finished = event.is_last
    return cut


def _timeout(client: str, args: Sequence[str]) -> int:
    """Milliseconds. Args are `CLIENT=DURATION`; the last one for a client counts, `*` is for all that are not named."""
    given = dict(arg.rsplit("=", 1) for arg in args)
    number, unit = [*re.findall(r"[0-9.]+|[a-z]+", given.get(client, given.get("*", "1m")).lower()), "s"][:2]
    return round(float(number) * _MS["ms" if unit.startswith(("ms", "mil")) else unit[0]])


_TYPES: Final = {
    "id": "STRING",
    "client": "STRING",
    "started_at": "TIMESTAMP",
    "number": "INT",
    "ended_at": "TIMESTAMP",
    "reason": "STRING",
    "events": "BIGINT",
    "data": "ARRAY<STRING>",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `user_sessions` over `inputs`."""
    run = replay_by_clock(inputs, facts, decode=decode)
    batch_at = {tick.at: tick.batch for tick in reversed(run.ticks)}
    rows: dict[Key, Values] = {}
    emitted = before = still_open = 0
    for user, history in _histories(run.ticks).items():
        client = user.split(":")[0]
        timeout = _timeout(client, facts.args)
        for session in _sessions(history, timeout):
            over = session.last + timeout
            if session.finished:
                end, reason, batch = session.last, "LAST", batch_at[session.last]
            else:
                end, reason = over, "TIMEOUT"
                batch = next((tick.batch for tick in run.ticks if tick.at >= over), -1)
            if batch < 0:
                still_open += len(session.data)
            elif batch < facts.first:
                before += len(session.data)
            else:
                emitted += len(session.data)
                key = user, moment(session.began), session.number
                rows[key] = client, moment(end), reason, len(session.data), session.data
    return Expectation(
        key_columns=("id", "started_at", "number"),
        value_columns=("client", "ended_at", "reason", "events", "data"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=emitted + before + still_open + run.unread,
            dropped=run.unread,
            emitted=emitted,
            emitted_before=before,
            open=still_open,
        ),
        count_column="events",
        problems=run.problems,
        notes={"batches": len(run.ticks), "input_files": len(inputs)},
    )


def _histories(ticks: Sequence[Tick[Event]]) -> Mapping[str, list[tuple[int, Event]]]:
    found: dict[str, list[tuple[int, Event]]] = defaultdict(list)
    for tick in ticks:
        for event in tick.rows:
            found[event.id].append((tick.at, event))
    return found
