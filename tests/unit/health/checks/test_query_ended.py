"""One query of several that does not run while its driver does."""

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.health.checks.batches import progress_stalled
from streamwarden.health.checks.driver import query_ended, restart_loop
from streamwarden.health.checks.state import state_size
from streamwarden.health.evaluate import evaluate
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.queries import Part
from streamwarden.stream.spec import StopPolicy, TriggerSpec
from support.streams.health_windows import NOW, driver, ended, judge, log, spec, window
from support.streams.queries import query_record

DRIVER = driver(1, NOW - 1000)
ENDLESS, FINITE = TriggerSpec(processing_time=7.0), TriggerSpec(processing_time=None, available_now=True)


def seen(of: DriverRecord = DRIVER, *, known: bool = True, by: str = "driver-1", **changes: Any) -> Window:
    """A window on the query `orders/left`."""
    query = query_record("orders", "left", driver=by, at=NOW - 990, **changes) if known else None
    alive = of.exit is None
    stuck = log(5, 4, planned_at=of.launched_at + 10)
    return window(drivers=(of,), driver_alive=alive, part=Part.QUERY, query=query, log=stuck)


def verdict_on(of: Window) -> Verdict:
    return judge(query_ended.CHECK, of)


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ({}, Status.OK, "the query runs"),
        ({"ended_at": NOW - 60, "error": "ValueError: poison"}, Status.CRITICAL, "failed 1m ago"),
        ({"ended_at": NOW - 60, "trigger": ENDLESS}, Status.UNKNOWN, "the query was stopped 1m ago"),
        ({"ended_at": NOW - 160, "trigger": ENDLESS}, Status.WARNING, "the query was stopped 2m 40s ago"),
        ({"ended_at": NOW - 60, "trigger": FINITE}, Status.OK, "processed all its input"),
        ({"ended_at": NOW - 60, "error": "E: x", "trigger": FINITE}, Status.CRITICAL, "E: x"),
        ({"known": False}, Status.CRITICAL, "launched 16m 40s ago and has not started this query"),
        ({"by": "driver-0"}, Status.CRITICAL, "has not started this query"),
    ],
)
def test_the_newest_run_decides(query: dict[str, Any], status: Status, reason: str) -> None:
    verdict = verdict_on(seen(**query))
    assert verdict.status is status
    assert reason in verdict.reason


@pytest.mark.parametrize(("seconds", "status"), [(60, Status.OK), (120, Status.WARNING), (301, Status.CRITICAL)])
def test_a_query_is_given_time_to_start(seconds: int, status: Status) -> None:
    assert verdict_on(seen(driver(1, NOW - seconds), known=False)).status is status


def test_the_first_query_to_end_at_a_stop_is_no_problem() -> None:
    """The others have a long batch. A restart is known by its deadlines only: 120 s + 30 s."""
    stopping = replace(seen(ended_at=NOW - 600), wanted_stopped=True)
    assert (verdict_on(stopping).status, verdict_on(stopping).value) == (Status.OK, 0)
    assert verdict_on(seen(ended_at=NOW - 149)).status is Status.UNKNOWN
    assert verdict_on(seen(ended_at=NOW - 151)).status is Status.WARNING
    patient = replace(seen(ended_at=NOW - 400), spec=spec(stop=StopPolicy(batch_deadline=400)))
    assert verdict_on(patient).status is Status.UNKNOWN
    failed = replace(seen(ended_at=NOW - 10, error="E: x"), wanted_stopped=True)
    assert verdict_on(failed).status is Status.CRITICAL, "a failure is one, whatever people want"


def test_a_dead_driver_is_not_the_matter_of_its_queries() -> None:
    dead = driver(1, NOW - 1000, exit=ended(ExitKind.KILLED, NOW - 10))
    assert verdict_on(seen(dead, ended_at=None)).status is Status.OK


def test_a_query_that_has_ended_is_one_problem_and_not_two() -> None:
    """Its batch stays planned for ever; that is no news beside its end."""
    long_ago = driver(1, NOW - 20_000)
    assert judge(progress_stalled.CHECK, seen(long_ago)).status is Status.CRITICAL
    assert judge(progress_stalled.CHECK, seen(long_ago, ended_at=NOW - 60, error="E: x")).status is Status.OK


def test_each_part_of_a_stream_is_judged_by_its_own_checks() -> None:
    checks = (state_size.CHECK, restart_loop.CHECK, query_ended.CHECK)
    for part, expected in {
        Part.WHOLE: ["state_size", "restart_loop"],
        Part.DRIVER: ["restart_loop"],
        Part.QUERY: ["state_size", "query_ended"],
    }.items():
        assert [each.check for each in evaluate(window(part=part), DEFAULTS, checks)] == expected
