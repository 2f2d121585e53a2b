"""Sessions without Spark: random batches, gaps, kills and orders against a ledger of events, and against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
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

JOB = job_module("user_sessions")
ORACLE = load_oracle(JOBS / "user_sessions.py")
ARGS = ("web=30", "kiosk=10 s", "*=20000ms")
TIMEOUTS = {"web": 30_000, "kiosk": 10_000}
USERS = ("web:1", "web:2", "kiosk:1", "other", "other:1")
RUBBISH = ('{"id":"web:1"}', "not json", '{"id":null,"data":"x"}', '{"id":"web:1","data":"x","is_last":"yes"}', "[]")


def timeout_of(user: str) -> int:
    return TIMEOUTS.get(user.split(":")[0], 20_000)


EVENTS = st.tuples(st.sampled_from(USERS), st.booleans(), st.booleans())
GAPS = st.one_of(st.sampled_from([1, 9_999, 10_000, 10_001, 20_000, 20_001, 30_000, 30_001]), st.integers(1, 70_000))
BATCHES = histories(EVENTS, GAPS, most=6)


def line(event: Sequence[Any], at: int, place: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    user, is_last = event
    return user, {"id": user, "data": place, "is_last": is_last}, {"data": place, "is_last": is_last}


def run(batches: list[Batch], *, quiet: bool = False) -> Run:
    """Drive the processor through the batches; `quiet`: and through two empty ones after a long silence."""
    ticking = Ticking(JOB.Sessions(JOB.timeouts(ARGS)))
    if quiet:
        batches = [*batches, Batch(100_000, [], False), Batch(1, [], True)]
    return drive(ticking, batches, line, keys=USERS, malformed=RUBBISH, args=ARGS)


def expectation(made: Run) -> Expectation:
    return expectation_of(ORACLE, made)


def rows_of(out: list[Any]) -> Rows:
    return [
        (
            (row.id, moment(row.started_ms), row.number),
            (row.client, moment(row.ended_ms), row.reason, row.events, row.data),
        )
        for row in out
    ]


def judged(made: Run, out: list[Any] | None = None) -> Reconciliation:
    return judged_by(expectation(made), rows_of(made.out if out is None else out))


@given(BATCHES)
def test_job_agrees_with_the_oracle(batches: list[Batch]) -> None:
    """Two ways to cut the same events: one batch after another with timers, and the whole history at once."""
    made = run(batches)
    outcome = judged(made)
    assert counters(outcome) == (0, 0, 0, 0), outcome.to_dict()
    assert outcome.problems == ()
    counts = expectation(made).counts
    assert counts.emitted == sum(row.events for row in made.out)
    assert counts.open == sum(len(kept) for kept in made.ticking.state()["data"].values())
    assert counts.records - counts.malformed == counts.emitted + counts.open == sum(map(len, made.sent.values()))


@given(BATCHES)
def test_each_event_is_in_one_session_and_each_session_ends_once(batches: list[Batch]) -> None:
    """The ledger: it knows what was sent and when, and nothing of how sessions are cut."""
    made = run(batches, quiet=True)
    assert len({(row.id, row.started_ms, row.number) for row in made.out}) == len(made.out)
    for user, events in made.sent.items():
        sessions = sorted((row for row in made.out if row.id == user), key=lambda row: (row.started_ms, row.number))
        # Every event once, in its order.
        assert [data for row in sessions for data in row.data] == [data for _, data, _ in events]
        times = {data: (at, is_last) for at, data, is_last in events}
        for row in sessions:
            marks = [times[data] for data in row.data]
            silences = [later[0] - earlier[0] for earlier, later in pairwise(marks)]
            assert max(silences, default=0) <= timeout_of(user)
            assert [is_last for _, is_last in marks[:-1]] == [False] * (len(marks) - 1)
            assert marks[-1][1] == (row.reason == "LAST")
            assert (row.started_ms, row.events) == (marks[0][0], len(row.data))
            assert row.ended_ms == marks[-1][0] + (0 if row.reason == "LAST" else timeout_of(user))
        for earlier, later in pairwise(sessions):
            assert earlier.reason == "LAST" or later.started_ms > earlier.ended_ms


@given(BATCHES)
def test_nothing_stays_of_an_id_that_fell_silent(batches: list[Batch]) -> None:
    ticking = run(batches, quiet=True).ticking
    assert ticking.timers() == []
    assert ticking.state() == {"open": {}, "data": {}}


@given(BATCHES)
def test_each_open_session_has_one_timer_and_nothing_else_has_any(batches: list[Batch]) -> None:
    ticking = run(batches).ticking
    open_ = {user: JOB.Session(*value) for user, value in ticking.state()["open"].items()}
    assert sorted(ticking.timers()) == sorted((user, session.timer_ms) for user, session in open_.items())
    assert all(session.timer_ms <= session.last_ms + timeout_of(user) for user, session in open_.items())


@given(BATCHES)
def test_a_batch_that_was_killed_and_ran_again_changes_nothing(batches: list[Batch]) -> None:
    killed = run([batch._replace(killed=True) for batch in batches])
    whole = run([batch._replace(killed=False) for batch in batches])
    assert killed.out == whole.out
    assert killed.ticking.state() == whole.ticking.state()


# By example


def one_user(*steps: tuple[int, list[bool]], user: str = "kiosk:1") -> Run:
    """Steps of (milliseconds since the last one, is_last of each event)."""
    return run([Batch(gap, [[(user, last, False) for last in lasts]] if lasts else [], False) for gap, lasts in steps])


@pytest.mark.parametrize("silence", [10_000, 10_001])
def test_a_silence_of_the_timeout_ends_a_session(silence: int) -> None:
    """Also in a batch of the very millisecond: Spark fires the timer in it, once. Triggers and timeouts are round."""
    assert one_user((1, [False]), (9_999, [])).out == []
    made = one_user((1, [False]), (silence, []))
    (row,) = made.out
    assert (row.reason, row.ended_ms - row.started_ms) == ("TIMEOUT", 10_000)
    assert made.ticking.timers() == []


def test_an_event_at_the_end_of_the_silence_goes_on_with_the_session() -> None:
    """A batch's rows come before its timers."""
    (row,) = one_user((1, [False]), (10_000, [False]), (10_000, [])).out
    assert (row.reason, row.events, row.ended_ms - row.started_ms) == ("TIMEOUT", 2, 20_000)


def test_clients_have_timeouts_of_their_own() -> None:
    steps = (1, [False]), (10_001, []), (10_000, []), (10_000, [])
    for user, batches in (("kiosk:9", 2), ("other", 3), ("web:9", 4)):
        assert one_user(*steps[: batches - 1], user=user if user in USERS else user.replace("9", "1")).out == []
        assert len(one_user(*steps[:batches], user=user if user in USERS else user.replace("9", "1")).out) == 1


def test_a_late_batch_ends_the_old_session_before_it_begins_the_new_one() -> None:
    """As after an outage: the event that comes first is from long after the timeout."""
    old, new = one_user((1, [False, False]), (50_000, [True])).out
    assert (old.reason, old.events, old.ended_ms - old.started_ms) == ("TIMEOUT", 2, 10_000)
    assert (new.reason, new.events, new.started_ms - old.started_ms) == ("LAST", 1, 50_000)


def test_sessions_of_one_batch_are_numbered() -> None:
    rows = one_user((1, [True, False, True, False]), (20_000, [])).out
    assert [(row.number, row.reason, row.events) for row in rows] == [
        (0, "LAST", 1),
        (1, "LAST", 2),
        (2, "TIMEOUT", 1),
    ]


def test_a_shortened_timeout_holds_from_the_next_event_on() -> None:
    session = JOB.Session(started_ms=0, number=0, last_ms=0, events=1, timer_ms=30_000)
    turn = JOB.advance(session, [JOB.Event("x", False)], 1_000, 5_000)
    assert turn.open.timer_ms == 6_000


@pytest.mark.parametrize("arg", ["30m", "=30m", "web=", "web=soon", "web=-1", "web=0", "web=0.0001"])
def test_a_table_of_clients_that_makes_no_sense_is_refused(arg: str) -> None:
    with pytest.raises(ConfigError, match="CLIENT=DURATION"):
        JOB.timeouts((arg,))


def test_without_a_table_the_timeout_is_a_minute() -> None:
    assert JOB.timeouts(()) == {"*": 60_000}
    assert JOB.timeouts(("a=b=30m", "*=2 minutes")) == {"*": 120_000, "a=b": 1_800_000}


@pytest.mark.parametrize(
    ("duration", "milliseconds"), [("30m", 1_800_000), ("250 ms", 250), ("1.5 hours", 5_400_000), ("2", 2_000)]
)
def test_job_and_oracle_read_the_same_durations(duration: str, milliseconds: int) -> None:
    timeout = ORACLE.__globals__["_timeout"]  # type: ignore[attr-defined]
    assert JOB.timeouts((f"web={duration}",))["web"] == timeout("web", (f"web={duration}",)) == milliseconds


# What the oracle must condemn


@pytest.fixture(scope="module")
def history() -> Run:
    """Some sessions of two ids, and one that is open."""
    batches = [
        Batch(1, [[("kiosk:1", False, False), ("web:1", False, False)]], False),
        Batch(5_000, [[("kiosk:1", False, True), ("kiosk:1", True, False), ("web:1", False, False)]], False),
        Batch(40_000, [[("kiosk:1", False, False)]], False),
    ]
    return run(batches)


def changed(row: Any, **changes: Any) -> Row:
    return Row(**{**row.asDict(), **changes})


def test_the_right_output_is_right(history: Run) -> None:
    assert [(row.id, row.reason) for row in history.out] == [("kiosk:1", "LAST"), ("web:1", "TIMEOUT")]
    assert judged(history).exactly_once


def test_a_lost_session_is_caught(history: Run) -> None:
    assert counters(judged(history, history.out[1:])) == (1, 0, 0, 0)


def test_a_session_that_came_out_twice_is_caught(history: Run) -> None:
    assert counters(judged(history, [*history.out, history.out[0]])) == (0, 1, 0, 0)


def test_a_session_cut_in_two_is_caught(history: Run) -> None:
    whole, *others = history.out
    first = changed(whole, events=1, data=whole.data[:1])
    second = changed(whole, events=2, data=whole.data[1:], number=1)
    assert counters(judged(history, [first, second, *others])) == (0, 0, 1, 1)


def test_an_event_in_the_wrong_session_is_caught(history: Run) -> None:
    one, two = history.out
    forged = [changed(one, data=[*one.data[:-1], two.data[0]]), two]
    assert counters(judged(history, forged)) == (0, 0, 0, 1)


def test_events_in_another_order_are_caught(history: Run) -> None:
    one, two = history.out
    assert counters(judged(history, [changed(one, data=one.data[::-1]), two])) == (0, 0, 0, 1)


def test_a_session_that_ended_too_early_is_caught(history: Run) -> None:
    one, two = history.out
    early = (moment(two.ended_ms) - timedelta(milliseconds=1)).timestamp() * 1000
    assert counters(judged(history, [one, changed(two, ended_ms=round(early))])) == (0, 0, 0, 1)


def test_a_session_that_is_still_open_is_not_expected_and_its_events_are_booked(history: Run) -> None:
    counts = expectation(history).counts
    assert (counts.records, counts.malformed, counts.pairs, counts.emitted, counts.open) == (7, 1, 6, 5, 1)


def test_fork_owes_only_sessions_ended_after_its_start(history: Run) -> None:
    later = history._replace(facts=replace(history.facts, first=2))
    wanted = expectation(later)
    assert [key[0] for key in wanted.rows] == ["web:1"]
    assert (wanted.counts.emitted_before, wanted.counts.emitted, wanted.counts.open) == (3, 2, 1)


def test_a_clock_that_went_back_is_a_problem(history: Run) -> None:
    times = {**history.facts.times, 2: START}
    problems = expectation(history._replace(facts=replace(history.facts, times=times))).problems
    assert Counter(problem.partition(":")[0] for problem in problems) == {"clock that went back": 1}
