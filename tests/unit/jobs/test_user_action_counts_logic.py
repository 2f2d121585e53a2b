"""Counts of users without Spark: random batches, gaps, kills and orders against conservation laws and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from streamwarden.errors import ConfigError
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.batches import moment
from streamwarden.verification.oracle import Expectation
from streamwarden.verification.reconciliation import Reconciliation
from support.oracles.processor_runs import START, Batch, Rows, Run, counters, drive, histories
from support.oracles.processor_runs import expectation as expectation_of
from support.oracles.processor_runs import judged as judged_by
from support.oracles.ticking import JOBS, Ticking, job_module

pytestmark = pytest.mark.usefixtures("one_database")

JOB = job_module("user_action_counts")
ORACLE = load_oracle(JOBS / "user_action_counts.py")
SILENCE = 10_000
ARGS = ("timeout=10s",)
USERS = (1, 2, -3)
RUBBISH = (
    "not json",
    '{"user_id":1}',
    '{"user_id":null,"action":"x"}',
    '{"user_id":"1","action":"x"}',
    '{"user_id":4294967296,"action":"x"}',
    "[]",
)


ACTIONS = st.tuples(st.sampled_from(USERS), st.booleans())
GAPS = st.one_of(st.sampled_from([1, 5_000, 9_999, 10_000, 10_001]), st.integers(1, 25_000))
BATCHES = histories(ACTIONS, GAPS, most=5)


def line(action: Sequence[Any], at: int, place: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    (user,) = action
    return user, {"user_id": user, "action": place}, {"action": place}


def run(batches: list[Batch], *, quiet: bool = False) -> Run:
    """Drive the processor through the batches; `quiet`: and through three empty ones after a long silence."""
    ticking = Ticking(JOB.Counts(JOB.timeout(ARGS)))
    if quiet:
        batches = [*batches, Batch(100_000, [], False), Batch(1, [], True), Batch(100_000, [], False)]
    return drive(ticking, batches, line, keys=USERS, malformed=RUBBISH, args=ARGS)


def expectation(made: Run) -> Expectation:
    return expectation_of(ORACLE, made)


def rows_of(out: list[Any]) -> Rows:
    return [
        ((row["user_id"], moment(row["at_ms"]), row["status"]), (row["count"], row["last_action"], row["added"]))
        for row in out
    ]


def judged(made: Run, out: list[Any] | None = None) -> Reconciliation:
    return judged_by(expectation(made), rows_of(made.out if out is None else out))


@given(BATCHES)
def test_job_agrees_with_the_oracle(batches: list[Batch]) -> None:
    """Two ways to count the same actions: one batch after another with timers, and the whole history at once."""
    made = run(batches)
    outcome = judged(made)
    assert counters(outcome) == (0, 0, 0, 0), outcome.to_dict()
    assert outcome.problems == ()
    counts = expectation(made).counts
    assert counts.emitted == counts.pairs == counts.records - counts.malformed == sum(map(len, made.sent.values()))


@given(BATCHES)
def test_emitted_counts_add_up_to_the_actions(batches: list[Batch]) -> None:
    """The ledger: actions in = added out at any time, and = final counts + the counts of those who stay."""
    made = run(batches)
    assert sum(row["added"] for row in made.out) == sum(map(len, made.sent.values()))
    known = {user: JOB.User(*value) for user, value in made.ticking.state()["user"].items()}
    for user, actions in made.sent.items():
        rows = [row for row in made.out if row["user_id"] == user]
        final = sum(row["count"] for row in rows if row["status"] == "TIMEOUT")
        assert final + (known[user].actions if user in known else 0) == len(actions)
        actions_at = {at: [action for when, action in actions if when == at] for at, _ in actions}
        updates = [row for row in rows if row["status"] == "UPDATE"]
        assert [row["at_ms"] for row in updates] == list(actions_at)
        assert [row["last_action"] for row in updates] == [each[-1] for each in actions_at.values()]
        for earlier, later in pairwise(rows):  # in the order in which they came out
            if later["status"] == "TIMEOUT":  # never without an action since the last one
                assert earlier["status"] == "UPDATE"
                assert (later["count"], later["last_action"]) == (earlier["count"], earlier["last_action"])
                assert later["at_ms"] == earlier["at_ms"] + SILENCE
            else:
                carried = earlier["count"] if earlier["status"] == "UPDATE" else 0
                assert later["count"] == carried + later["added"]
                assert (later["at_ms"] - earlier["at_ms"] <= SILENCE) or earlier["status"] == "TIMEOUT"


@given(BATCHES)
def test_each_user_who_came_leaves_and_nothing_stays_of_them(batches: list[Batch]) -> None:
    made = run(batches, quiet=True)
    assert made.ticking.timers() == []
    assert made.ticking.state() == {"user": {}}
    for user, actions in made.sent.items():
        statuses = [row["status"] for row in made.out if row["user_id"] == user]
        assert statuses[-1:] == (["TIMEOUT"] if actions else [])


@given(BATCHES)
def test_each_user_has_one_timer(batches: list[Batch]) -> None:
    ticking = run(batches).ticking
    known = {user: JOB.User(*value) for user, value in ticking.state()["user"].items()}
    assert sorted(ticking.timers()) == sorted((user, each.timer_ms) for user, each in known.items())


@given(BATCHES)
def test_a_batch_that_was_killed_and_ran_again_changes_nothing(batches: list[Batch]) -> None:
    killed = run([batch._replace(killed=True) for batch in batches])
    whole = run([batch._replace(killed=False) for batch in batches])
    assert killed.out == whole.out
    assert killed.ticking.state() == whole.ticking.state()


# By example


def one_user(*steps: tuple[int, int]) -> list[tuple[str, int, int]]:
    """Steps of (milliseconds since the last one, actions) -> (status, count, milliseconds since the first action)."""
    made = run([Batch(gap, [[(1, False)] * actions] if actions else [], False) for gap, actions in steps])
    return [(row["status"], row["count"], row["at_ms"] - START - steps[0][0]) for row in made.out]


def test_user_is_emitted_and_removed_after_the_inactivity() -> None:
    assert one_user((1, 3), (9_999, 0)) == [("UPDATE", 3, 0)]
    assert one_user((1, 3), (9_999, 0), (2, 0), (90_000, 0)) == [("UPDATE", 3, 0), ("TIMEOUT", 3, 10_000)]


def test_batch_at_the_exact_millisecond_emits_the_departure_of_a_user() -> None:
    """Spark fires the timer in it, once; nobody would tell it later. Triggers and timeouts are of round numbers."""
    made = run([Batch(1, [[(1, False)]], False), Batch(10_000, [], False)])
    assert [row["status"] for row in made.out] == ["UPDATE", "TIMEOUT"]
    assert made.ticking.timers() == []
    assert not any(made.ticking.state().values())


def test_actions_in_time_keep_a_user() -> None:
    assert one_user((1, 1), (10_000, 1), (10_000, 1)) == [
        ("UPDATE", 1, 0),
        ("UPDATE", 2, 10_000),
        ("UPDATE", 3, 20_000),
    ]


def test_who_comes_back_begins_at_one_again() -> None:
    """The first batch after the silence is the one that they come back in: as after an outage."""
    assert one_user((1, 2), (60_000, 1)) == [("UPDATE", 2, 0), ("TIMEOUT", 2, 10_000), ("UPDATE", 1, 60_000)]


def test_a_shortened_timeout_holds_from_the_next_action_on() -> None:
    user = JOB.User(actions=1, last_action="a", last_ms=0, timer_ms=30_000)
    assert JOB.advance(user, 1, "b", 1_000, 5_000).user.timer_ms == 6_000


@pytest.mark.parametrize("arg", ["5m", "timeout=", "timeout=soon", "timeout=0", "silence=5m", "timeout"])
def test_a_timeout_that_makes_no_sense_is_refused(arg: str) -> None:
    with pytest.raises(ConfigError, match="timeout=DURATION"):
        JOB.timeout((arg,))


@pytest.mark.parametrize(
    ("args", "milliseconds"),
    [((), 300_000), (("timeout=5m",), 300_000), (("timeout=1 h",), 3_600_000), (("timeout=1m", "timeout=250 ms"), 250)],
)
def test_job_and_oracle_read_the_same_timeout(args: tuple[str, ...], milliseconds: int) -> None:
    timeout = ORACLE.__globals__["_timeout"]  # type: ignore[attr-defined]
    assert JOB.timeout(args) == timeout(args) == milliseconds


# What the oracle must condemn


@pytest.fixture(scope="module")
def history() -> Run:
    """Two users; one left and came back."""
    one, two = (1, False), (2, False)
    return run(
        [
            Batch(1, [[one, two, one]], False),
            Batch(5_000, [[two]], False),
            Batch(10_000, [], False),
            Batch(5_000, [[(1, True)]], False),
        ]
    )


def changed(row: Any, **changes: Any) -> Row:
    return Row(**{**row.asDict(), **changes})


def test_the_right_output_is_right(history: Run) -> None:
    told = [(row["user_id"], row["status"], row["count"], row["added"]) for row in history.out]
    assert told == [
        (1, "UPDATE", 2, 2),
        (2, "UPDATE", 1, 1),
        (2, "UPDATE", 2, 1),
        (1, "TIMEOUT", 2, 0),
        (2, "TIMEOUT", 2, 0),
        (1, "UPDATE", 1, 1),
    ]
    assert judged(history).exactly_once


def test_a_lost_row_is_caught(history: Run) -> None:
    assert counters(judged(history, history.out[1:])) == (1, 0, 0, 0)


def test_a_second_timeout_without_an_action_between_is_caught(history: Run) -> None:
    again = changed(history.out[3], at_ms=history.out[3]["at_ms"] + SILENCE)
    assert counters(judged(history, [*history.out, again])) == (0, 0, 1, 0)
    assert counters(judged(history, [*history.out, history.out[3]])) == (0, 1, 0, 0)


@pytest.mark.parametrize("change", [{"count": 3}, {"added": 1}, {"last_action": "logout"}])
def test_an_altered_value_is_caught(history: Run, change: dict[str, Any]) -> None:
    first, *others = history.out
    assert counters(judged(history, [changed(first, **change), *others])) == (0, 0, 0, 1)


def test_a_user_who_was_not_forgotten_is_caught(history: Run) -> None:
    forged = [changed(row, count=3) if row == history.out[4] else row for row in history.out]
    assert counters(judged(history, forged)) == (0, 0, 0, 1)


def test_a_timeout_that_never_came_is_caught(history: Run) -> None:
    assert counters(judged(history, history.out[:-1])) == (1, 0, 0, 0)


def test_fork_owes_only_rows_emitted_after_its_start(history: Run) -> None:
    wanted = expectation(history._replace(facts=replace(history.facts, first=2)))
    assert sorted((key[0], key[2]) for key in wanted.rows) == [(1, "TIMEOUT"), (1, "UPDATE"), (2, "TIMEOUT")]
    assert (wanted.counts.emitted_before, wanted.counts.emitted) == (4, 1)


def test_a_batch_without_a_time_leaves_no_verdict(history: Run) -> None:
    from streamwarden.errors import VerificationError

    with pytest.raises(VerificationError, match="batch 0 has no time"):
        expectation(history._replace(facts=replace(history.facts, times={})))
