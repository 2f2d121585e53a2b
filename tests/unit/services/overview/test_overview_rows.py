"""The rows of the fleet: their texts hold no secret, and what has not changed is not made again."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.redaction import REDACTED
from streamwarden.services.overview.charts import ChartData
from streamwarden.services.overview.models import Text
from streamwarden.services.overview.rows import (
    AfterExit,
    Forecast,
    Growth,
    Judgement,
    MadeMetrics,
    Metric,
    StreamRow,
    forecast,
    metric,
)

OURS = {
    *("stream", "dag_id", "check", "title", "unit", "shown", "limits", "run_id", "drill", "verdict", "name"),
    *("health_causes", "metrics", "muted", "pool", "group"),
}
"""Fields whose texts the platform writes, or checks: names, numbers for a person, and words of its own."""
VERDICT = Verdict(stream="orders", check="state_size", status=Status.OK, at=1.0, value=1e6, unit="bytes", reason="fine")


def texts(model: Any) -> Iterator[tuple[str, object]]:
    """(field, type) of each text that the model shows."""
    shown = {name for name, field in model.__pydantic_fields__.items() if not field.exclude}
    for name, kind in typing.get_type_hints(model, include_extras=True).items():
        if name in shown:
            yield from ((name, found) for found in _kinds(kind))


def _kinds(kind: object) -> Iterator[object]:
    if kind is str or kind == Text:
        yield kind
    for each in typing.get_args(kind) if kind != Text else ():
        yield from _kinds(each)


@pytest.mark.parametrize("model", [StreamRow, Metric, Forecast, AfterExit, ChartData])
def test_every_text_that_somebody_else_wrote_is_redacted_when_the_model_is_made(model: type) -> None:
    """The answers are not redacted again: a new field has to be a `Text`, or ours."""
    assert [name for name, kind in texts(model) if kind is str and name not in OURS] == []


def test_a_secret_in_a_reason_is_gone() -> None:
    made = metric(replace(VERDICT, reason="cannot log in with password=hush-hush-1"), DEFAULTS, {})
    assert "hush" not in made.model_dump_json()
    assert REDACTED in made.reason


def test_a_metric_is_made_again_only_for_another_verdict_or_other_thresholds() -> None:
    made: MadeMetrics = {}
    first = metric(VERDICT, DEFAULTS, made)
    assert metric(VERDICT, DEFAULTS, made) is first
    tighter = DEFAULTS.with_overrides({"state_size": {"critical": 2e6, "warning": 1e6}})
    assert metric(VERDICT, tighter, made).limits != first.limits
    assert metric(replace(VERDICT, value=2e6), DEFAULTS, made).value == 2e6


GROWTH = Verdict(
    stream="orders", check="state_growth", status=Status.OK, at=1.0, value=None, unit="seconds", reason="?"
)


@pytest.mark.parametrize(
    ("verdict", "sentence", "status", "seconds", "an_hour"),
    [
        (
            replace(GROWTH, value=7200.0, evidence={"growth_span_s": 900.0, "bytes_per_hour": 2e6}),
            "reaches 5.0 GB in 2h",
            Growth.GROWING,
            7200.0,
            2e6,
        ),
        (replace(GROWTH, value=9e9, evidence={"bytes_per_hour": 1.0}), "does not grow", Growth.STEADY, None, None),
        (replace(GROWTH, reason="never, even at the steepest growth"), "does not grow", Growth.STEADY, None, None),
        (replace(GROWTH, status=Status.CRITICAL, value=0.0), "has reached 5.0 GB", Growth.REACHED, 0.0, None),
        (replace(GROWTH, status=Status.UNKNOWN, reason="too little"), "too little", Growth.UNKNOWN, None, None),
        (replace(GROWTH, evidence={"applies": False}), "does not grow", Growth.NOT_APPLICABLE, None, None),
    ],
    ids=["it grows", "slow at most", "flat or shrinking", "it is there", "nobody can say", "no state"],
)
def test_the_forecast_says_how_long_the_state_lasts(
    verdict: Verdict, sentence: str, status: Growth, seconds: float | None, an_hour: float | None
) -> None:
    """In words and as fields. A state that has stood still for the whole history has no steepest growth: it does not
    grow, that is clear."""
    found = forecast([VERDICT, verdict], DEFAULTS)
    assert found == Forecast(sentence=sentence, status=status, seconds=seconds, limit_bytes=5e9, bytes_per_hour=an_hour)
    assert forecast([VERDICT], DEFAULTS).status is Growth.UNKNOWN


def test_a_check_with_nothing_to_judge_is_neither_ok_nor_null() -> None:
    """A script that looks for streams that are well does not count it, and its value is no 0."""
    made = metric(replace(VERDICT, value=0.0, evidence={"applies": False}), DEFAULTS, {})
    assert (made.status, made.value, made.shown) == (Judgement.NOT_APPLICABLE, None, "")
    stale = metric(replace(VERDICT, status=Status.UNKNOWN, evidence={"applies": False}), DEFAULTS, {})
    assert stale.status is Judgement.UNKNOWN
