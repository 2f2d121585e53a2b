"""The oracle of `event_dedup`: the same question answered by a plain loop over the whole input.

Written from the question, not from the job, and shares no code with it: standard library only, no Spark, no parquet.

The question: which events happened? Each is wanted once, as it first came; an event is what has the same id and the
same time. What comes more than ten minutes late is left out. So is a line that is not a valid event: not a JSON object,
a field of another type or none at all, or a time more than an hour ahead of its file or record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.lines import fields, instant, integer, text
from streamwarden.verification.oracle import Expectation, RunFacts
from streamwarden.verification.repeats import firsts, once_each

_MINUTE: Final = 60_000
_FIELDS: Final = {"event_time": instant, "event_id": text, "user_id": integer, "action": text}


class Event(NamedTuple):
    """An event; `at` in Unix milliseconds."""

    at: int
    id: str
    user: int
    action: str


def decode(line: str) -> Event | None:
    """An event; None if the line is not one."""
    found = fields(line, _FIELDS)
    if found is None:
        return None
    at, who, user, action = found["event_time"], found["event_id"], found["user_id"], found["action"]
    if not (isinstance(at, int) and isinstance(who, str) and isinstance(user, int) and isinstance(action, str)):
        return None
    return Event(at, who, user, action)


_TYPES: Final = {
    "event_time": "TIMESTAMP",
    "event_id": "STRING",
    "user_id": "INT",
    "action": "STRING",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `event_dedup` over `inputs`."""
    run = replay_input(
        inputs, facts, decode=decode, at=lambda event: event.at, delay=10 * _MINUTE, not_after=60 * _MINUTE
    )
    # An id with its time cannot come again once it is forgotten: it is late from then on.
    found = firsts(
        run.steps(), identity=lambda event: (event.id, event.at), at=lambda event: event.at, delay=10 * _MINUTE
    )
    return once_each(
        found,
        run,
        facts,
        key_columns=("event_id", "event_time"),
        value_columns=("user_id", "action"),
        types=_TYPES,
        complete=True,
        row=lambda event: ((event.id, moment(event.at)), (event.user, event.action)),
        what="repeats of one event",
        name=lambda event: event.id,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "repeats": len(found.repeats),
            "late_rows": len(found.late),
            "final_watermark": str(moment(run.final_mark)),
        },
    )
