"""The oracle of `event_windows`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: for each five minutes and each user that acted in them: how many actions were there, and which, in the
order of their time (those of one millisecond in the order of their text)? Actions that come after the newest time has
moved ten minutes beyond the end of their five minutes are left out. So is a line that is not a valid action: not a JSON
object, a field of another type, no time, user or action, or a time more than an hour ahead of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.lines import fields, instant, integer, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

_MINUTE: Final = 60_000
_LENGTH: Final = 5 * _MINUTE
_FIELDS: Final = {"event_time": instant, "user_id": integer, "action": text}


class Event(NamedTuple):
    """Who did what and when (Unix milliseconds)."""

    at: int
    action: str
    user: int


def decode(line: str) -> Event | None:
    """An action of a user; None if the line is not one."""
    found = fields(line, _FIELDS)
    if found is None:
        return None
    at, user, action = found["event_time"], found["user_id"], found["action"]
    if not (isinstance(at, int) and isinstance(user, int) and isinstance(action, str)):
        return None
    return Event(at, action, user)


_TYPES: Final = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "user_id": "INT",
    "events": "BIGINT",
    "actions": "ARRAY<STRING>",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `event_windows` over `inputs`."""
    run = replay_input(
        inputs, facts, decode=decode, at=lambda event: event.at, delay=10 * _MINUTE, not_after=60 * _MINUTE
    )
    windows: dict[tuple[int, int], list[Event]] = {}
    late = []
    for step in run.steps():
        for event in step.rows:
            start = event.at - event.at % _LENGTH
            if start + _LENGTH <= step.closed:
                late.append((step.batch, start, event.user))
            else:
                windows.setdefault((start, event.user), []).append(event)
    before = run.marks.get(facts.first - 1, 0)
    rows: dict[Key, Values] = {}
    counted = {"emitted": 0, "emitted_before": 0, "open": 0}
    for (start, user), events in windows.items():
        end = start + _LENGTH
        if end > run.final_mark:
            counted["open"] += len(events)
        elif end <= before:
            counted["emitted_before"] += len(events)
        else:
            counted["emitted"] += len(events)
            actions = [event.action for event in sorted(events)]
            rows[moment(start), user] = (moment(end), len(events), actions)
    return Expectation(
        key_columns=("window_start", "user_id"),
        value_columns=("window_end", "events", "actions"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=run.records - run.malformed,
            dropped=len(late),
            **counted,
        ),
        count_column="events",
        problems=run.problems,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "late_rows": len(late),
            "late_pairs": len(set(late)),  # a batch's late events of one window and user are one pair
            "final_watermark": str(moment(run.final_mark)),
        },
    )
