"""A progress report of any content is a Progress, or raises the one error that its readers count and log."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.errors import ProgressError
from streamwarden.progress import Progress, parse_progress
from support.generated_input import bounded, generated_input
from support.streams.reports import report

SAMPLE = dict(report(3).raw)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63) - 1, 10**30, "NaN", "2026-01-01T00:00:00.000Z", "0001-01-01T00:00:00Z"]),
    st.floats(),
    st.text(max_size=12),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def changed_reports(draw: st.DrawFn) -> Any:
    """Spark's report with some values, at any depth, replaced by others of any type, or removed."""
    body: Any = json.loads(json.dumps(SAMPLE))
    for _ in range(draw(st.integers(1, 4))):
        at = body
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and draw(st.booleans()):
                at = at[key]
                continue
            if isinstance(at, dict) and draw(st.booleans()):
                del at[key]
            else:
                at[key] = draw(JSON)
            break
    return body


@generated_input
@given(
    st.one_of(
        changed_reports().map(json.dumps),
        JSON.map(json.dumps),
        st.text(max_size=50),
        st.integers(1, 100_000).map(lambda depth: '{"id":' * depth),
        st.integers(4301, 10_000).map(lambda digits: f'{{"batchId": {"9" * digits}}}'),
    )
)
def test_a_report_is_a_progress_or_the_one_error(text: str) -> None:
    with bounded(), contextlib.suppress(ProgressError):
        progress = parse_progress(text)
        assert isinstance(progress, Progress)
        assert -(2**63) <= progress.batch_id < 2**63
        assert progress.malformed >= 0 or progress.malformed < 0
        assert isinstance(progress.has_run, bool)
        assert all(isinstance(each, str) for each in (progress.query_id, progress.run_id, progress.sink))
