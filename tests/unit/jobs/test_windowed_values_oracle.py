"""The oracle of windowed_values: by hand on small runs, by its laws on any run."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.errors import ConfigError, VerificationError
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.batches import moment
from streamwarden.verification.oracle import RateFacts, RunFacts
from support.oracles.oracle_runs import REPOSITORY
from support.oracles.ticking import job_module

BEGAN = 1_700_006_400_000  # midnight, and so the start of a window
ARGS = ("window=4s", "slide=2s", "watermark=1s")
ORACLE = load_oracle(REPOSITORY / "spark_jobs" / "windowed_values.py")


def facts(*seconds: int, rate: int = 2, began: int = BEGAN, slow: int = 0) -> RunFacts:
    """Batches of so many seconds each, then one without any. The watermarks are those that Spark would log."""
    ends = list(accumulate(seconds))
    newest = [began + round(1000 * (end - 1 / rate)) for end in ends]
    marks = [0]
    for length, top in zip(seconds, newest, strict=True):
        marks.append(max(marks[-1], top - 1000) if length else marks[-1])
    return RunFacts(
        files={},
        watermarks=dict(enumerate(marks)),
        committed=len(seconds) - slow,
        args=ARGS,
        rate=RateFacts(began_ms=began, ends=dict(enumerate([*ends, ends[-1]])), rows_per_second=rate),
    )


def test_a_window_sums_the_values_of_its_seconds() -> None:
    """Two values a second: 0 and 1 in the first, 18 and 19 in the tenth. The newest is at 9.5 s, the mark at 8.5 s."""
    found = ORACLE([], facts(3, 7))
    assert found.problems == ()
    windows = {(key[0] - moment(BEGAN)).total_seconds(): values[1:] for key, values in found.rows.items()}  # type: ignore[operator]
    assert windows == {
        -2.0: (4, 6, 0, 3),
        0.0: (8, 28, 0, 7),
        2.0: (8, 60, 4, 11),
        4.0: (8, 92, 8, 15),
    }
    assert (found.counts.records, found.counts.pairs) == (20, 40)
    assert found.counts.emitted + found.counts.open == 40


def test_what_a_batch_of_an_uncommitted_run_moved_is_not_owed() -> None:
    assert len(ORACLE([], facts(3, 7, slow=1)).rows) < len(ORACLE([], facts(3, 7)).rows)


def test_a_watermark_that_the_values_do_not_explain_is_reported() -> None:
    honest = facts(3, 7)
    forged = replace(honest, watermarks={**honest.watermarks, 2: BEGAN + 60_000})
    assert ORACLE([], forged).problems[0].startswith("watermark that the input does not explain: batch 2")


def test_seconds_that_the_offset_log_lacks_leave_no_verdict() -> None:
    honest = facts(3, 7)
    assert honest.rate is not None
    with pytest.raises(VerificationError, match="which seconds were in batch 1"):
        ORACLE([], replace(honest, rate=replace(honest.rate, ends={0: 3, 2: 10})))


def test_a_stream_of_files_is_not_its_question() -> None:
    with pytest.raises(VerificationError, match="not the rate source"):
        ORACLE([], replace(facts(3), rate=None))


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(sum),
    st.sampled_from([1, 2, 4, 5, 8]),
    st.integers(BEGAN, BEGAN + 10_000),
)
def test_where_batches_were_cut_changes_no_window(seconds: list[int], rate: int, began: int) -> None:
    found = ORACLE([], facts(*seconds, rate=rate, began=began))
    assert found.problems == ()
    assert found.counts.pairs == 2 * found.counts.records == 2 * rate * sum(seconds)
    assert found.counts.emitted == sum(values[1] for values in found.rows.values())  # type: ignore[misc]
    assert found.rows == ORACLE([], facts(sum(seconds), rate=rate, began=began)).rows


@pytest.mark.parametrize("arg", ["window", "window=", "window=soon", "window=0s", "slide=-1s", "width=5m"])
def test_a_parameter_that_is_none_is_refused(arg: str) -> None:
    with pytest.raises(ConfigError, match="args"):
        job_module("windowed_values").parameters([arg], "windowed_values.yaml")


def test_a_slide_beyond_the_window_would_lose_rows_and_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than the window"):
        job_module("windowed_values").parameters(["window=1m", "slide=2m"], "windowed_values.yaml")


def test_only_the_two_joins_are_known() -> None:
    kind = job_module("flight_weather").kind
    assert (kind([]), kind(["join=inner"])) == ("left_outer", "inner")
    for wrong in ("join=full", "join", "inner"):
        with pytest.raises(ConfigError, match="join=left or join=inner"):
            kind([wrong], "flight_weather.yaml")
