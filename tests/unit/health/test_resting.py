"""Checks that rest: their last verdict stands for some minutes, and says when it was measured."""

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.checkpoint.compact_logs import CompactLog
from streamwarden.health.checks import CHECKS
from streamwarden.health.checks.state.metadata_growth import CHECK as GROWTH
from streamwarden.health.evaluate import evaluate
from streamwarden.health.resting import MEASURED_AT, MEASURED_EVERY, is_resting
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from support.streams.health_windows import NOW, STREAM, log, window

LOG = CompactLog(name="sources/0", batch=9, next_batch=19, size=1000, entries=10, exact=True)


def judged(**changes: Any) -> Verdict:
    (verdict,) = evaluate(seen(**changes), DEFAULTS, [GROWTH])
    return verdict


def seen(**changes: Any) -> Window:
    return window(**{"log": log(9, 9), "logs": (LOG,), **changes})


def test_a_verdict_that_is_good_stands_for_five_to_ten_minutes_and_says_since_when() -> None:
    first = judged()
    assert (first.status, first.evidence[MEASURED_AT]) == (Status.OK, NOW)
    assert is_resting(GROWTH, STREAM, first, NOW + MEASURED_EVERY / 2 - 1)
    assert not is_resting(GROWTH, STREAM, first, NOW + MEASURED_EVERY)
    later = judged(now=NOW + 60, logs=None, previous={GROWTH.name: first}, resting={GROWTH.name})
    assert later == replace(first, at=NOW + 60)


def test_streams_that_were_measured_together_are_not_measured_again_together() -> None:
    first = judged()
    at = NOW + 0.75 * MEASURED_EVERY
    assert {is_resting(GROWTH, f"s{number}", first, at) for number in range(20)} == {True, False}


@pytest.mark.parametrize("status", [Status.WARNING, Status.CRITICAL, Status.UNKNOWN])
def test_only_a_verdict_that_is_good_stands(status: Status) -> None:
    assert not is_resting(GROWTH, STREAM, replace(judged(), status=status), NOW + 60)


def test_a_check_that_does_not_rest_and_a_verdict_of_another_version_are_judged() -> None:
    first = judged()
    assert not is_resting(replace(GROWTH, rests=False), STREAM, first, NOW + 60)
    assert not is_resting(GROWTH, STREAM, replace(first, evidence={MEASURED_AT: NOW}), NOW + 60)
    assert not is_resting(GROWTH, STREAM, None, NOW)


def test_after_the_clock_was_set_back_it_is_judged() -> None:
    assert not is_resting(GROWTH, STREAM, judged(), NOW - 60)


def test_the_verdict_on_another_query_does_not_stand() -> None:
    """The negative control: a new checkpoint is a new beginning."""
    first = judged()
    other = replace(log(9, 9), query_id="another")
    later = judged(now=NOW + 60, log=other, previous={GROWTH.name: first}, resting={GROWTH.name})
    assert later.status is Status.UNKNOWN


def test_no_check_rests_on_which_the_health_of_a_stream_depends() -> None:
    assert not [check.name for check in CHECKS if check.rests and check.essential]
