"""The oracle of `user_action_counts`: the whole history of each user, split into visits and counted.

Written from the question, not from the job, and shares no code with it: no timers, no state that is carried on.

The question: an action comes at the time of its batch. Actions of a user belong to one visit as long as no silence
between them is longer than the timeout. For each batch with actions of a user: how many has this visit had, how many of
them came now, what was the last. For each visit that is over: the same once more, at the end of the silence, which
comes out in the first batch planned after it. A line that is not a valid action is left out: not a JSON object, a field
of another type, or no user or action.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streamwarden.verification.batches import moment
from streamwarden.verification.clock import Tick, replay_by_clock
from streamwarden.verification.lines import fields, integer, text
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values

_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Action(NamedTuple):
    """A line of the input."""

    user: int
    action: str


def decode(line: str) -> Action | None:
    """An action; None if the line is not one."""
    found = fields(line, {"user_id": integer, "action": text})
    if found is None or found["action"] is None or not isinstance(user := found["user_id"], int):
        return None
    return Action(user, str(found["action"]))


def _timeout(args: Sequence[str]) -> int:
    """Milliseconds; the last `timeout=DURATION` counts."""
    given = [arg.partition("=")[2] for arg in args if arg.startswith("timeout=")]
    number, unit = [*re.findall(r"[0-9.]+|[a-z]+", (given or ["5m"])[-1].lower()), "s"][:2]
    return round(float(number) * _MS["ms" if unit.startswith(("ms", "mil")) else unit[0]])


_TYPES: Final = {
    "user_id": "INT",
    "at": "TIMESTAMP",
    "status": "STRING",
    "count": "BIGINT",
    "last_action": "STRING",
    "added": "BIGINT",
}
"""The whole set of columns of the output."""


def expected(inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output of a run of `user_action_counts` over `inputs`."""
    run = replay_by_clock(inputs, facts, decode=decode)
    silence = _timeout(facts.args)
    rows: dict[Key, Values] = {}
    emitted = before = 0
    for user, batches in _histories(run.ticks).items():
        for visit in _visits(batches, silence):
            for at, (tick, actions) in enumerate(visit):
                so_far = sum(len(each) for _, each in visit[: at + 1])
                if tick.batch < facts.first:
                    before += len(actions)
                    continue
                emitted += len(actions)
                rows[user, moment(tick.at), "UPDATE"] = so_far, actions[-1], len(actions)
            (last, actions), total = visit[-1], sum(len(each) for _, each in visit)
            batch = next((tick.batch for tick in run.ticks if tick.at >= last.at + silence), -1)
            if batch >= facts.first:
                rows[user, moment(last.at + silence), "TIMEOUT"] = total, actions[-1], 0
    return Expectation(
        key_columns=("user_id", "at", "status"),
        value_columns=("count", "last_action", "added"),
        types=_TYPES,
        complete=True,
        rows=rows,
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=emitted + before + run.unread,
            dropped=run.unread,
            emitted=emitted,
            emitted_before=before,
            open=0,  # an action comes out in its own batch
        ),
        count_column="added",
        problems=run.problems,
        notes={"batches": len(run.ticks), "input_files": len(inputs)},
    )


_Batch = tuple[Tick[Action], list[str]]


def _histories(ticks: Sequence[Tick[Action]]) -> Mapping[int, list[_Batch]]:
    """User -> the batches with actions of theirs, in order."""
    found: dict[int, list[_Batch]] = defaultdict(list)
    for tick in ticks:
        mine: dict[int, list[str]] = defaultdict(list)
        for action in tick.rows:
            mine[action.user].append(action.action)
        for user, actions in mine.items():
            found[user].append((tick, actions))
    return found


def _visits(batches: Sequence[_Batch], silence: int) -> Iterator[list[_Batch]]:
    """Cut where the silence is longer than `silence`."""
    visit: list[_Batch] = []
    for batch in batches:
        if visit and batch[0].at - visit[-1][0].at > silence:
            yield visit
            visit = []
        visit.append(batch)
    yield visit
