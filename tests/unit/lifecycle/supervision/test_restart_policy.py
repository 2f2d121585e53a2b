"""When a stream is started again: back-off, budget, forgiveness, and what a restart cannot cure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, Restart, backoff, decide
from streamwarden.stream.spec import Budget, RestartPolicy

POLICY = RestartPolicy()
"""The documented defaults: 30 s x 2 up to 10 min, 5 an hour, forgiven after an hour of health."""

HOUR = 3600.0


def driver(launched: float, ended: float | None, kind: ExitKind = ExitKind.FAILED, **exit: object) -> DriverRecord:
    """A driver whose query started 5 s after the launch."""
    record = None
    if ended is not None:
        record = ExitRecord(kind=kind, ended_at=ended, **exit)  # type: ignore[arg-type]
    return DriverRecord(
        driver_id=f"d-{launched}",
        stream="s",
        checkpoint="/c",
        token=1,
        folder="/f",
        launched_by="test",
        launched_at=launched,
        started_at=launched + 5,
        exit=record,
    )


def failures(*ends: float, kind: ExitKind = ExitKind.FAILED) -> list[DriverRecord]:
    """Drivers that lived ten seconds each and failed at `ends`."""
    return [driver(end - 10, end, kind) for end in ends]


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (7, 600), (500, 600)]
)
def test_the_documented_backoff(attempt: int, seconds: float) -> None:
    """30 s, twice as long each time, never above ten minutes."""
    assert backoff(POLICY, attempt) == seconds


@pytest.mark.parametrize("kind", [ExitKind.FAILED, ExitKind.KILLED])
def test_a_first_failure_waits_the_initial_backoff(kind: ExitKind) -> None:
    """Counted from the exit, not from when somebody came to look."""
    assert decide(failures(1000, kind=kind), POLICY, now=1000) == Restart(after=30, attempt=1, reason=str(kind))
    late = decide(failures(1000, kind=kind), POLICY, now=1012)
    assert isinstance(late, Restart)
    assert late.after == 18


WORKED, IDLE = True, False
F, K, S = ExitKind.FAILED, ExitKind.KILLED, ExitKind.STOPPED


@pytest.mark.parametrize(
    ("lives", "after"),
    [
        # (seconds of life, end, committed a batch), oldest first; each driver is launched a second after the last
        ([(600, K, WORKED)], 0),  # a healthy life, killed
        ([(600, F, WORKED)], 0),  # or failed
        ([(600, K, IDLE)], 30),  # it never committed a batch: a restart proves nothing
        ([(600, K, None)], 30),  # the checkpoint cannot be read
        ([(HOUR + 5, K, IDLE)], 0),  # no input, but an hour of health
        ([(600, K, WORKED), (60, K, WORKED)], 60),  # the second failure within the hour, whatever it committed
        ([(600, K, WORKED), (9, F, IDLE)], 60),
        ([(9, F, WORKED)] * 3, 120),  # a crash loop that commits one batch in each life
        ([(9, F, IDLE)] * 4, 240),  # and one that commits none
        ([(9, F, IDLE), (HOUR + 5, K, WORKED)], 0),  # forgiven, so it is the first again
        ([(600, K, WORKED), (60, S, IDLE), (9, F, IDLE)], 60),  # a stop in between forgives nothing
        ([(600, S, WORKED), (9, F, IDLE)], 0),  # committed since the failure before, of which there is none
        ([(HOUR + 5, S, WORKED), (9, F, IDLE), (9, F, IDLE)], 60),
        ([(9, F, IDLE), (HOUR + 5, S, IDLE), (9, F, IDLE)], 0),  # an hour of health since the failure before
        ([(9, F, WORKED), (HOUR + 5, F, IDLE), (9, F, IDLE)], 60),
    ],
)
def test_the_first_failure_of_a_stream_that_worked_restarts_it_at_once(
    lives: list[tuple[float, ExitKind, bool | None]], after: float
) -> None:
    """Every other failure waits its turn."""
    history, now = [], 1000.0
    for life, kind, committed in lives:
        history.append(driver(now, now + life, kind, committed=committed))
        now += life + 1
    decision = decide(history, POLICY, now - 1)
    assert isinstance(decision, Restart)
    assert decision.after == after


def test_at_once_means_at_once_also_for_an_end_later_than_now() -> None:
    """A supervisor takes the time and then looks at the driver, whose end is recorded by another clock."""
    decision = decide([driver(0, 600, committed=True)], POLICY, now=599.9)
    assert decision == Restart(after=0, attempt=1, reason="failed")


@pytest.mark.parametrize("committed", [True, False])
def test_a_crash_loop_is_not_accelerated(committed: bool) -> None:
    """Only its first wait may be skipped: five restarts still take a quarter of an hour."""
    now, history, waits = 0.0, [], []
    while isinstance(decision := decide(history, POLICY, now), Restart):
        waits.append(decision.after)
        now += decision.after
        history.append(driver(now, now + 9, committed=committed))
        now += 9
    assert waits == [0, 0 if committed else 30, 60, 120, 240, 480]
    assert decision.exhausted


def test_the_immediate_restart_is_counted_in_the_budget() -> None:
    """With a budget of one restart an hour the second failure is the last."""
    policy = RestartPolicy(budget=Budget(count=1, per=HOUR))
    history = [driver(0, 600, committed=True), driver(600, 1200, committed=True)]
    assert isinstance(decide(history[:1], policy, now=600), Restart)
    assert isinstance(decide(history, policy, now=1200), GiveUp)


def test_a_supervisor_that_was_away_does_not_wait_twice() -> None:
    """The back-off was over long ago: launch at once."""
    assert decide(failures(1000), POLICY, now=2000) == Restart(after=0, attempt=1, reason="failed")


def test_each_failure_in_a_row_waits_longer() -> None:
    """The third failure in a row waits 120 s."""
    decision = decide(failures(1000, 1100, 1200), POLICY, now=1200)
    assert decision == Restart(after=120, attempt=3, reason="failed")


@pytest.mark.parametrize("kind", [ExitKind.STOPPED, ExitKind.COMPLETED])
def test_an_end_in_good_order_burns_nothing(kind: ExitKind) -> None:
    """Ten graceful restarts in a minute are no failure."""
    history = [driver(end - 1, end, kind) for end in range(1000, 1010)]
    assert decide(history, POLICY, now=1010) == Restart(after=0, attempt=0, reason=str(kind))


def test_a_stop_that_had_to_be_forced_burns_nothing_and_the_next_start_does_not_wait() -> None:
    forced = driver(60, 100, ExitKind.KILLED, signal=15, on_request=True)
    decision = decide([*failures(10, 20, 30, 40, 50), forced], POLICY, 101)
    assert isinstance(decision, Restart)
    assert (decision.after, decision.attempt) == (0.0, 0)


def test_a_fenced_driver_burns_nothing_but_does_not_hurry() -> None:
    """Another holder writes: an immediate launch would only quarrel with it."""
    history = [driver(end - 1, end, ExitKind.FENCED) for end in range(1000, 1010)]
    assert decide(history, POLICY, now=1009) == Restart(after=30, attempt=0, reason="fenced")


@pytest.mark.parametrize(("count", "gives_up"), [(1, False), (4, False), (5, False), (6, True)])
def test_five_restarts_an_hour_and_no_more(count: int, gives_up: bool) -> None:
    """The fifth failure is restarted, the sixth within the hour is not."""
    ends = [1000 + 60 * i for i in range(count)]
    decision = decide(failures(*ends), POLICY, now=ends[-1])
    assert isinstance(decision, GiveUp if gives_up else Restart)
    if isinstance(decision, GiveUp):
        assert decision.exhausted
        assert "gave up after 6 failures in 1h" in decision.reason
        assert decision.next_step


def test_failures_older_than_the_budgets_hour_cost_nothing() -> None:
    """Five failures just over an hour ago and one now: one of five is used. The back-off still counts all six."""
    ends = [1000 + i for i in range(5)]
    decision = decide(failures(*ends, 1005 + HOUR), POLICY, now=1005 + HOUR)
    assert isinstance(decision, Restart)
    assert decision.attempt == 6


def test_an_hour_of_health_forgives_everything() -> None:
    """Five quick failures, then a driver that ran an hour and failed: that failure is the first again, and it has
    proved to work."""
    history = [*failures(100, 200, 300, 400, 500), driver(600, 605 + HOUR)]
    assert decide(history, POLICY, now=605 + HOUR) == Restart(after=0, attempt=1, reason="failed")


def test_almost_an_hour_of_health_forgives_nothing() -> None:
    """A second short of it."""
    history = [*failures(3000, 3100, 3200, 3300, 3400), driver(3500, 3504 + HOUR)]
    decision = decide(history, POLICY, now=3504 + HOUR)
    assert isinstance(decision, Restart)
    assert decision.attempt == 6


def test_an_hour_without_a_started_query_is_no_health() -> None:
    """A driver that hung in its start-up for two hours was never healthy."""
    hung = driver(500, 500 + 2 * HOUR)
    hung = DriverRecord(**{**{f: getattr(hung, f) for f in hung.__slots__}, "started_at": None})
    decision = decide([*failures(400), hung], POLICY, now=500 + 2 * HOUR)
    assert isinstance(decision, Restart)
    assert decision.attempt == 2


def test_a_reason_that_a_restart_cannot_cure_stops_at_once() -> None:
    """A changed schema after a day of health: no restart is tried, and the advice is the exit's own."""
    exit = {"curable": False, "error_class": "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "next_step": "restore the job"}
    decision = decide([driver(0, 24 * HOUR, **exit)], POLICY, now=24 * HOUR)
    assert isinstance(decision, GiveUp)
    assert not decision.exhausted
    assert "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in decision.reason
    assert decision.next_step == "restore the job"


def test_a_driver_that_vanished_unrecorded_counts_as_killed() -> None:
    """Nobody recorded the exit of the first: it ended before the second was launched."""
    decision = decide([driver(0, None), driver(100, 200)], POLICY, now=200)
    assert isinstance(decision, Restart)
    assert decision.attempt == 2


def test_nothing_to_judge_means_launch() -> None:
    """A stream that never ran, or whose past was forgiven, or whose newest driver has no exit yet."""
    assert decide([], POLICY, now=0).after == 0  # type: ignore[union-attr]
    assert decide([driver(0, None)], POLICY, now=0).after == 0  # type: ignore[union-attr]


policies = st.builds(
    RestartPolicy,
    initial=st.floats(0, 100),
    factor=st.floats(1, 5),
    cap=st.floats(0, 1000),
    budget=st.builds(Budget, count=st.integers(0, 8), per=st.floats(10, 10_000)),
    healthy_after=st.floats(100, 10_000),
)


@given(policy=policies, lives=st.lists(st.floats(0.01, 90), min_size=1, max_size=40))
def test_no_stream_restarts_more_often_than_its_budget(policy: RestartPolicy, lives: list[float]) -> None:
    """Whatever the lives of its drivers, a supervisor that obeys the decisions stays within the budget and the cap."""
    now, history, restarts = 0.0, [], []
    for life in lives:
        history.append(driver(now, now + life))
        now += life
        decision = decide(history, policy, now)
        if isinstance(decision, GiveUp):
            break
        assert 0 <= decision.after <= policy.cap + 1e-6
        restarts.append(now)
        now += decision.after
    for at in restarts:
        assert sum(at - policy.budget.per + 1e-6 < other <= at for other in restarts) <= policy.budget.count


@given(ends=st.lists(st.floats(0, 10_000), min_size=1, max_size=10, unique=True), now=st.floats(0, 20_000))
def test_the_order_of_the_history_does_not_matter(ends: list[float], now: float) -> None:
    """The store may hand the drivers over in any order."""
    history = failures(*ends)
    assert decide(history, POLICY, now) == decide(list(reversed(history)), POLICY, now)
