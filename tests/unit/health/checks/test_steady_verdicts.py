"""No check flaps at its threshold, and none judges a stream that does not run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from streamwarden.health.check import Check
from streamwarden.health.checks import CHECKS
from streamwarden.health.checks.input import backlog
from streamwarden.health.checks.state import partition_skew, replay_debt
from streamwarden.health.incidents.incident import Incident, IncidentPolicy, advance
from streamwarden.health.signals.sampled_hysteresis import settled
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import ALARMS, Status, Verdict
from streamwarden.health.window import StateInstance, WaitingInput, Window
from streamwarden.lifecycle.driver import ExitKind
from support.streams.health_windows import NOW, driver, ended, judge, log, report, spec, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN

MEASURED_ONCE = {
    "replay_debt",
    "backlog",
    "partition_skew",
    "late_rows",
    "state_growth",
    "watermark_ahead",
    "malformed_rows",
}
"""Values that each evaluation measures once."""
OF_EACH_BATCH = {
    "state_size", "checkpoint_duration", "state_update_latency", "state_cleanup_time", "memory_usage",
    "batch_longer_than_trigger",
}  # fmt: skip
"""Settled by `settle`: see test_hysteresis.py."""
TIMES_THAT_ONLY_GROW = {
    "broker_unreachable", "database_unreachable", "driver_down", "progress_stalled", "topic_lag", "watermark_stalled",
    "metadata_growth", "query_ended", "resources_pending", "snapshot_lag", "savepoint_overdue", "small_files",
    "compaction_overdue", "table_log",
}  # fmt: skip
"""The value grows with time until one event sets it to 0."""
COUNTS_OF_EVENTS = {
    "batches_skipped",
    "files_read_again",
    "input_lost",
    "malformed_not_kept",
    "restart_loop",
    "versions_kept",
}
"""Each change of the value is an event that a person has to know of."""


def test_every_check_is_in_one_class() -> None:
    classes = (MEASURED_ONCE, OF_EACH_BATCH, TIMES_THAT_ONLY_GROW, COUNTS_OF_EVENTS)
    assert sorted(name for each in classes for name in each) == sorted(check.name for check in CHECKS)
    assert {check.name for check in CHECKS if check.raise_after is not None} == MEASURED_ONCE


def debt(seconds: float, at: float) -> Window:
    """A restart would spend `seconds` on rows that one batch changed since the snapshot, and 2.8 s on copying that."""
    reports = [
        report(
            n,
            operator={"memoryUsedBytes": 280_000_000, "numRowsUpdated": round(seconds / 24e-6), "numRowsRemoved": 0},
            custom={"rocksdbSstFileSize": 0},
        )
        for n in range(5)
    ]
    state = (StateInstance(operator=0, partition=0, snapshot=4, version=5, size=10),)
    return window(reports, drivers=(driver(1, NOW - 500),), driver_alive=True, state=state, now=at)


def waiting(seconds: float, at: float) -> Window:
    """`seconds` of work wait: a batch of ten seconds reads one file, and the stream has just committed."""
    reports = [report(n, at - 200 + 10 * n, top={"batchDuration": 10_000}) for n in range(20)]
    input = WaitingInput(count=round(seconds / 10), since=at - 5, planned=20, planned_batches=20)
    position = log(19, 19, planned_at=at - 10, committed_at=at)
    return window(reports, log=position, waiting=input, driver_alive=True, drivers=(driver(1, at - 900),), now=at)


def skewed(times: float, at: float) -> Window:
    sizes = (100_000_000 * times, 100_000_000, 100_000_000, 100_000_000)
    state = tuple(
        StateInstance(operator=0, partition=n, snapshot=1, version=1, size=round(size)) for n, size in enumerate(sizes)
    )
    return window(state=state, now=at)


SIMULATED = [(replay_debt.CHECK, debt), (backlog.CHECK, waiting), (partition_skew.CHECK, skewed)]
EACH = pytest.mark.parametrize(("check", "of"), SIMULATED, ids=lambda each: getattr(each, "name", None))


def play(check: Check, of: object, values: Sequence[float], *, every: float = 60.0) -> Iterator[Verdict]:
    """One evaluation of each value; each remembers what the one before it measured."""
    before: Verdict | None = None
    for minute, value in enumerate(values):
        seen: Window = of(value, NOW + every * minute)  # type: ignore[operator]
        before = judge(check, replace(seen, previous={} if before is None else {check.name: before}))
        yield before


def incidents(verdicts: Sequence[Verdict]) -> list[Incident]:
    known: dict[str, Incident] = {}
    for verdict in verdicts:
        for each in advance(known.values(), [verdict], verdict.at, IncidentPolicy(), lambda: str(len(known))).all:
            known[each.incident_id] = each
    return list(known.values())


@EACH
def test_a_value_that_swings_around_its_threshold_opens_one_incident(check: Check, of: object) -> None:
    limit = DEFAULTS.of(check.name)["warning"]
    rng = random.Random(7)
    verdicts = list(play(check, of, [limit * rng.uniform(0.8, 1.25) for _ in range(240)]))
    changes = sum(one.status is not other.status for one, other in pairwise(verdicts))
    assert changes <= 4, [each.status.value for each in verdicts]
    assert len(incidents(verdicts)) <= 1


@EACH
def test_the_test_can_fail_without_hysteresis(check: Check, of: object) -> None:
    limit = DEFAULTS.of(check.name)["warning"]
    rng = random.Random(7)
    plain = replace(check, raise_after=None)
    verdicts = [judge(plain, of(limit * rng.uniform(0.8, 1.25), NOW + 60.0 * n)) for n in range(240)]  # type: ignore[operator]
    assert len(incidents(verdicts)) > 1


@EACH
def test_a_lasting_change_is_seen(check: Check, of: object) -> None:
    limit = DEFAULTS.of(check.name)["critical"]
    statuses = [each.status for each in play(check, of, [limit / 100] * 10 + [limit * 2] * 10 + [limit / 100] * 12)]
    assert statuses[9] is OK
    assert statuses[10 + (check.raise_after or 1) - 1] is CRITICAL
    assert statuses[19] is CRITICAL
    assert statuses[28] is CRITICAL
    assert statuses[29] is OK


def test_the_first_evaluation_alarms_at_once() -> None:
    (verdict,) = play(replay_debt.CHECK, debt, [1_000.0])
    assert verdict.status is CRITICAL


def test_two_evaluations_right_after_each_other_count_once() -> None:
    """A person runs `streamwarden check` ten times within a few seconds."""
    history = list(play(replay_debt.CHECK, debt, [1.0] * 5))
    later: Verdict = history[-1]
    for second in range(1, 11):
        seen = replace(debt(1_000.0, history[-1].at + second), previous={"replay_debt": later})
        later = judge(replay_debt.CHECK, seen)
        assert (later.status, later.advice) == (UNKNOWN, "")
        assert "not raised yet: CRITICAL needs 3 of the 5 newest evaluations" in later.reason


def test_a_long_pause_or_a_new_checkpoint_is_a_new_beginning() -> None:
    *_, last = play(replay_debt.CHECK, debt, [1_000.0] * 6)
    after = debt(1.0, last.at + 60)
    assert judge(replay_debt.CHECK, replace(after, previous={"replay_debt": last})).status is CRITICAL
    paused = debt(1.0, last.at + 601)
    assert judge(replay_debt.CHECK, replace(paused, previous={"replay_debt": last})).status is OK
    renewed = replace(after, log=log(4, 4), previous={"replay_debt": last})
    assert judge(replay_debt.CHECK, renewed).status is OK


@pytest.mark.parametrize(
    ("held", "statuses", "raise_after", "expected"),
    [
        (None, [CRITICAL], 3, CRITICAL),
        (OK, [OK, CRITICAL], 3, CRITICAL),
        (OK, [UNKNOWN, UNKNOWN, CRITICAL], 3, OK),
        (OK, [WARNING, UNKNOWN, WARNING, UNKNOWN, WARNING], 3, WARNING),
        (OK, [OK, OK, CRITICAL], 3, OK),
        (OK, [OK, OK, CRITICAL, CRITICAL, CRITICAL], 3, CRITICAL),
        (OK, [CRITICAL, OK, CRITICAL, OK, CRITICAL], 3, CRITICAL),
        (OK, [CRITICAL, OK, OK, CRITICAL, OK, CRITICAL], 3, OK),
        (OK, [OK, OK, CRITICAL], 1, CRITICAL),
        (CRITICAL, [CRITICAL, *[OK] * 9], 1, CRITICAL),
        (CRITICAL, [OK] * 9, 1, CRITICAL),
        (CRITICAL, [OK] * 10, 1, OK),
        (CRITICAL, [*[OK] * 5, *[WARNING] * 5], 1, WARNING),
    ],
)
def test_settled(held: Status | None, statuses: list[Status], raise_after: int, expected: Status) -> None:
    assert settled(held, statuses, raise_after) is expected


def slow(**changes: object) -> Window:
    """20 batches of a minute at a trigger of ten seconds, slow in everything else too."""
    reports = [
        report(
            n,
            NOW - 1_260 + 60 * n,
            top={"batchDuration": 60_000, "numInputRows": 20_000, "observedMetrics": MALFORMED},
            durations={"walCommit": 40_000, "addBatch": 60_000},
            operator={
                "allUpdatesTimeMs": 1_000_000, "numRowsUpdated": 1_000, "allRemovalsTimeMs": 200_000,
                "numRowsDroppedByWatermark": 5_000,
            },
            watermark=NOW - 90_000,
        )
        for n in range(20)
    ]  # fmt: skip
    position = log(19, 19, planned_at=NOW - 120, committed_at=NOW - 60)
    return window(reports, log=position, spec=spec(quarantine="/data/quarantine"), **changes)


MALFORMED = {"input": {"read": 20_000, "malformed": 5_000}}
DEAD = driver(1, NOW - 9_000, exit=ended(ExitKind.KILLED, NOW - 50))
WHILE_RUNNING = [check for check in CHECKS if check.while_running]


def test_the_checks_that_judge_batches_need_a_running_stream() -> None:
    assert {check.name for check in WHILE_RUNNING} == {
        "batch_longer_than_trigger", "checkpoint_duration", "state_update_latency", "state_cleanup_time", "late_rows",
        "malformed_rows", "watermark_stalled",
    }  # fmt: skip


@pytest.mark.parametrize("check", WHILE_RUNNING, ids=lambda check: check.name)
def test_no_alarm_is_raised_by_the_batches_of_a_stream_that_does_not_run(check: Check) -> None:
    alive = judge(check, slow(drivers=(driver(1, NOW - 9_000),), driver_alive=True))
    assert alive.status in ALARMS
    dead = judge(check, slow(drivers=(DEAD,), driver_alive=False))
    assert (dead.status, dead.advice) == (UNKNOWN, "")
    assert dead.reason.startswith("not running; before: ")
    wanted_stopped = slow(drivers=(driver(1, NOW - 9_000),), driver_alive=False, wanted_stopped=True)
    assert judge(check, wanted_stopped).status is UNKNOWN


@pytest.mark.parametrize("check", WHILE_RUNNING, ids=lambda check: check.name)
def test_the_batches_of_a_run_that_came_to_its_end_are_judged(check: Check) -> None:
    """A drill judges a fork that has processed its input; a stream with `available_now` is judged between its runs."""
    done = driver(1, NOW - 9_000, exit=ended(ExitKind.COMPLETED, NOW - 50))
    assert judge(check, slow(drivers=(done,), driver_alive=False)).status in ALARMS
