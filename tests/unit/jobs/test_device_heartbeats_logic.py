"""Heartbeats without Spark: random batches, gaps, kills, late readings and expiry against a ledger and the oracle."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from streamwarden.errors import ConfigError
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.stream.spec import StateSpec, StreamSpec
from streamwarden.verification.batches import moment
from streamwarden.verification.oracle import Expectation
from streamwarden.verification.reconciliation import Reconciliation
from support.oracles.oracle_runs import iso
from support.oracles.processor_runs import START, Batch, Rows, Run, counters, drive, histories
from support.oracles.processor_runs import expectation as expectation_of
from support.oracles.processor_runs import judged as judged_by
from support.oracles.ticking import JOBS, Ticking, job_module

pytestmark = pytest.mark.usefixtures("one_database")

JOB = job_module("device_heartbeats")
ORACLE = load_oracle(JOBS / "device_heartbeats.py")
BY_CLOCK = ("heartbeat=10s", "inactive=25s")
BY_EVENT = (*BY_CLOCK, "time=event", "late=15s")
TTL_MS = 60_000
DEVICES = ("d-1", "d-2")
RUBBISH = (
    '{"device_id":"d-1","session_id":"a"}',
    "not json",
    '{"device_id":"d-1","session_id":null,"state":"x"}',
    "[]",
)


READINGS = st.tuples(
    st.sampled_from(DEVICES), st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 30_000), st.booleans()
)
GAPS = st.one_of(st.sampled_from([1, 9_999, 10_000, 10_001, 25_000, 25_001, 60_000]), st.integers(1, 70_000))
BATCHES = histories(READINGS, GAPS, most=6)


def line(reading: Sequence[Any], now: int, place: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """`back` is how many milliseconds the reading's event time lies back."""
    device, session, state, back = reading
    at = now - back
    fields = {"device_id": device, "session_id": session, "state": state, "event_time": iso(at)}
    return device, fields, {"session_id": session, "state": state, "at_ms": at}


def run(batches: list[Batch], *, by_event: bool = False, ttl_ms: int | None = None, quiet: bool = False) -> Run:
    """Drive the processor through the batches; `quiet`: and through two more after a long silence."""
    args = BY_EVENT if by_event else BY_CLOCK
    rules = JOB.rules_of(args)
    expire = {"begun": ttl_ms} if ttl_ms is not None else None
    ticking = Ticking(JOB.Heartbeats(rules, ttl_ms), by_event=by_event, expire=expire)
    if quiet:
        last = [[("d-0", "a", "end", 0, False)]] if by_event else []  # only a reading moves the watermark
        batches = [*batches, Batch(1_000_000, last, False), Batch(1_000, [], True)]
    late = rules.late if by_event else None
    return drive(ticking, batches, line, keys=DEVICES, malformed=RUBBISH, args=args, late=late, ttl_ms=ttl_ms)


def expectation(made: Run) -> Expectation:
    return expectation_of(ORACLE, made)


def rows_of(out: list[Any]) -> Rows:
    return [
        (
            (row.device_id, row.session_id, moment(row.at_ms), row.kind),
            (row.number, moment(row.started_ms), row.readings, row.added, row.state),
        )
        for row in out
    ]


def judged(made: Run, out: list[Any] | None = None) -> Reconciliation:
    return judged_by(expectation(made), rows_of(made.out if out is None else out))


MODES = st.sampled_from([{"ttl_ms": TTL_MS}, {}, {"by_event": True}])


@given(BATCHES, MODES)
def test_job_agrees_with_the_oracle(batches: list[Batch], mode: dict[str, Any]) -> None:
    """Two ways to answer: point after point with what is kept between them, and each session's history at once."""
    made = run(batches, **mode)
    outcome = judged(made)
    assert counters(outcome) == (0, 0, 0, 0), outcome.to_dict()
    assert outcome.problems == ()
    counts = expectation(made).counts
    pending = sum(map(len, made.ticking.state()["pending"].values()))
    assert (counts.emitted, counts.open) == (sum(row.added for row in made.out), pending)
    assert counts.records - counts.malformed == counts.emitted + counts.open + counts.dropped


@given(BATCHES, MODES)
def test_each_reading_is_emitted_once_and_each_session_ends_once(batches: list[Batch], mode: dict[str, Any]) -> None:
    """The ledger: rows of a session carry on where the one before left off, on the grid, and the last one is its END.

    It needs neither the times of the readings nor the oracle.
    """
    made = run(batches, **mode, quiet=True)
    sessions = defaultdict(list)
    for row in made.out:
        if row.device_id in DEVICES:
            sessions[row.device_id, row.session_id, row.started_ms].append(row)
    for (device, _, started), rows in sessions.items():
        assert [row.kind for row in rows] == ["HEARTBEAT"] * (len(rows) - 1) + ["END"]
        told = 0
        for row in rows:
            told += row.added
            assert row.readings == told
        beats = [row.at_ms for row in rows[:-1]]
        first = JOB.first_point(started, device, 10_000)
        assert beats == [first + 10_000 * number for number in range(len(beats))]
        assert len({row.number for row in rows}) == 1
    kept = [json.loads(line) for lines in made.files.values() for line in lines if "event_time" in line]
    told = sum(rows[-1].readings for rows in sessions.values())
    assert told == sum(each["device_id"] in DEVICES for each in kept) - expectation(made).counts.dropped


@given(BATCHES)
def test_by_event_time_the_batches_do_not_matter(batches: list[Batch]) -> None:
    """All readings in one batch, or each file in one of its own: the same rows, if none was late."""
    files = [[(d, s, x, 0, False) for d, s, x, _, _ in readings] for batch in batches for readings in batch.files]
    apart = [Batch(batch.gap_ms, batch.files, False) for batch in batches]
    now, spread = 0, []
    for batch in apart:
        now += batch.gap_ms
        spread.append(Batch(batch.gap_ms, [[(d, s, x, 0, False) for d, s, x, _, _ in f] for f in batch.files], False))
    at, together = 0, []
    for batch in apart:
        at += batch.gap_ms
        together += [[(d, s, x, now - at, False) for d, s, x, _, _ in f] for f in batch.files]
    assert sum(map(len, files)) == sum(map(len, together))
    one = run([Batch(now, together, False)], by_event=True, quiet=True)
    many = run(spread, by_event=True, quiet=True)
    assert sorted(map(repr, rows_of(one.out))) == sorted(map(repr, rows_of(many.out)))


@given(BATCHES, MODES)
def test_nothing_stays_of_a_device_that_fell_silent(batches: list[Batch], mode: dict[str, Any]) -> None:
    """But how many sessions it had, until that expires."""
    made = run(batches, **mode, quiet=True)
    state = made.ticking.state()
    silent = {name: {key for key in held if key in DEVICES} for name, held in state.items()}
    assert not silent["sessions"]
    assert not silent["pending"]
    assert [timer for timer in made.ticking.timers() if timer[0] in DEVICES] == []
    assert not silent["begun"] or mode.get("ttl_ms")


@given(BATCHES, MODES)
def test_only_a_device_with_pending_output_has_a_timer(batches: list[Batch], mode: dict[str, Any]) -> None:
    made = run(batches, **mode)
    state = made.ticking.state()
    assert sorted(device for device, _ in made.ticking.timers()) == sorted(
        set(state["sessions"]) | set(state["pending"])
    )
    for device, timer in made.ticking.timers():
        assert timer == JOB.first_point(timer, device, 10_000)
        assert timer >= made.clock


@given(BATCHES, MODES)
def test_a_batch_that_was_killed_and_ran_again_changes_nothing(batches: list[Batch], mode: dict[str, Any]) -> None:
    killed = run([batch._replace(killed=True) for batch in batches], **mode)
    whole = run([batch._replace(killed=False) for batch in batches], **mode)
    assert killed.out == whole.out
    assert killed.ticking.state() == whole.ticking.state()


# By example


def beats(*steps: tuple[int, str], **mode: Any) -> list[tuple[str, str, int, int, int]]:
    """Steps of (milliseconds since the last one, session of a reading or "") of one device; rows from its grid on."""
    grid = JOB.first_point(START, "d-1", 10_000) - START
    found = run(
        [
            Batch(gap + (grid if number == 0 else 0), [[("d-1", name, "x", 0, False)]] if name else [], False)
            for number, (gap, name) in enumerate(steps)
        ],
        **mode,
    )
    return [(row.session_id, row.kind, row.at_ms - START - grid, row.added, row.number) for row in found.out]


def test_heartbeat_is_emitted_after_its_interval_and_counts_its_readings() -> None:
    assert beats((0, "a"), (4_000, "a"), (5_999, "a")) == [("a", "HEARTBEAT", 0, 1, 1)]
    assert beats((0, "a"), (4_000, "a"), (5_999, "a"), (1, "")) == [
        ("a", "HEARTBEAT", 0, 1, 1),
        ("a", "HEARTBEAT", 10_000, 2, 1),
    ]


def test_after_an_outage_each_missed_heartbeat_is_emitted_with_its_own_time() -> None:
    rows = beats((1, "a"), (600_000, "a"))
    assert rows == [
        ("a", "HEARTBEAT", 10_000, 1, 1),
        ("a", "HEARTBEAT", 20_000, 0, 1),
        ("a", "END", 25_001, 0, 1),
    ]


def test_a_silence_of_just_the_limit_does_not_end_a_session() -> None:
    assert beats((0, "a"), (25_000, "a"), (5_001, ""))[-1] == ("a", "HEARTBEAT", 30_000, 1, 1)
    assert [row[1] for row in beats((0, "a"), (25_001, "a"), (5_001, ""))[-2:]] == ["END", "HEARTBEAT"]


def test_repeated_session_id_begins_a_session_with_the_next_number() -> None:
    rows = beats((0, "a"), (26_000, "a"), (5_000, ""), ttl_ms=TTL_MS)
    assert rows[-2:] == [("a", "END", 25_000, 0, 1), ("a", "HEARTBEAT", 30_000, 1, 2)]


def test_a_device_is_forgotten_with_its_last_session_or_when_its_number_expires() -> None:
    steps = (0, "a"), (1, ""), (40_000, "b"), (10_001, "")
    assert beats(*steps)[-1][4] == 1
    assert beats(*steps, ttl_ms=TTL_MS)[-1][4] == 2
    assert beats(*steps, ttl_ms=50_000)[-1][4] == 1


def test_heartbeat_is_emitted_when_the_clock_reaches_it_and_not_before() -> None:
    """Also in a batch of the very millisecond: Spark fires the timer in it, once."""
    assert len(beats((0, "a"), (9_999, ""))) == 1
    assert len(beats((0, "a"), (10_000, ""))) == 2
    assert len(beats((0, "a"), (10_000, ""), (10_000, ""))) == 3


def test_by_event_time_an_out_of_order_reading_is_emitted_at_its_time() -> None:
    """The timer was set for the newer one: it moves."""
    files = [
        [[("d-1", "a", "x", 0, False)]],
        [[("d-1", "a", "x", 18_000, False), ("d-2", "b", "x", 0, False)]],
        [],
    ]
    made = run([Batch(14_000, readings, False) for readings in files], by_event=True)
    assert made.clock < START + 14_000  # the newer reading's own heartbeat is not due yet
    assert judged(made).exactly_once
    assert [(row.device_id, row.readings) for row in made.out] == [("d-1", 1)]


def test_devices_do_not_beat_at_once() -> None:
    phases = {JOB.first_point(START, f"d-{number}", 30_000) - START for number in range(1_000)}
    assert len(phases) > 900


@pytest.mark.parametrize(
    "arg",
    [
        "30s",
        "heartbeat=",
        "heartbeat=soon",
        "inactive=0",
        "inactive=-1",
        "time=wall",
        "late=1m",
        "=1s",
        "ttl=1d",
        "buckets=-1",
    ],
)
def test_args_that_make_no_sense_are_refused(arg: str) -> None:
    with pytest.raises(ConfigError, match="args: "):
        JOB.rules_of((arg,))


def test_the_rules_have_defaults() -> None:
    assert JOB.rules_of(()) == (30_000, 120_000, False, 60_000, 0)
    assert JOB.rules_of(("time=event", "late=10m", "heartbeat=250 ms", "buckets=8")) == (250, 120_000, True, 600_000, 8)


def test_a_ttl_by_events_time_is_refused_with_the_reason() -> None:
    spec = StreamSpec(name="x", job="x.py", checkpoint="x", args=BY_EVENT, state=StateSpec(ttl=60.0))
    with pytest.raises(ConfigError, match="by the clock only"):
        JOB.build(None, spec)


# What the oracle must condemn


@pytest.fixture(scope="module", params=[False, True], ids=["by_clock", "by_event"])
def history(request: pytest.FixtureRequest) -> Run:
    """Two sessions of one device that overlap; the second one is active in the end."""
    batches = [
        Batch(1, [[("d-1", "a", "x", 0, False)]], False),
        Batch(9_000, [[("d-1", "a", "y", 0, True), ("d-1", "b", "x", 0, False)]], False),
        Batch(30_000, [[("d-1", "b", "z", 9_000, False)]], False),
        Batch(20_000, [[("d-2", "c", "x", 0, False)]], False),
        Batch(20_000, [[("d-2", "c", "y", 0, False)]], False),
        Batch(10, [], False),
    ]
    return run(batches, by_event=request.param)


def changed(row: Any, **changes: Any) -> Row:
    return Row(**{**row.asDict(), **changes})


def test_the_right_output_is_right(history: Run) -> None:
    assert judged(history).exactly_once
    assert {row.kind for row in history.out} == {"HEARTBEAT", "END"}
    assert len(history.out) > 5


def test_a_lost_heartbeat_is_caught(history: Run) -> None:
    assert counters(judged(history, history.out[1:])) == (1, 0, 0, 0)


def test_a_heartbeat_that_came_out_twice_is_caught(history: Run) -> None:
    assert counters(judged(history, [*history.out, history.out[0]])) == (0, 1, 0, 0)


def test_a_heartbeat_of_a_session_that_is_over_is_caught(history: Run) -> None:
    end = next(row for row in history.out if row.kind == "END")
    ghost = changed(end, kind="HEARTBEAT", added=0)
    assert counters(judged(history, [*history.out, ghost])) == (0, 0, 1, 0)


@pytest.mark.parametrize("change", [{"readings": 9}, {"added": 9}, {"state": "?"}, {"number": 9}, {"started_ms": 1}])
def test_an_altered_row_is_caught(history: Run, change: dict[str, Any]) -> None:
    first, *others = history.out
    assert counters(judged(history, [changed(first, **change), *others])) == (0, 0, 0, 1)


def test_a_session_that_ended_too_early_is_caught(history: Run) -> None:
    early = [changed(row, at_ms=row.at_ms - 1) if row.kind == "END" else row for row in history.out]
    lost, _, unexpected, _ = counters(judged(history, early))
    assert lost == unexpected > 0


def test_fork_owes_only_rows_emitted_after_its_start(history: Run) -> None:
    later = history._replace(facts=replace(history.facts, first=4))
    whole, rest = expectation(history), expectation(later)
    assert 0 < len(rest.rows) < len(whole.rows)
    assert rest.counts.emitted_before + rest.counts.emitted == whole.counts.emitted
