"""A function of foreachBatch is recorded when it gets a batch, when it first wrote, and when it ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamwarden.lifecycle.handovers import read_handovers
from streamwarden.spark.driver.handovers import Handovers


def frame(query: str | None) -> Any:
    """As much of a frame as says to which query it belongs."""
    context = SimpleNamespace(getLocalProperty=lambda name: query if name == "sql.streaming.queryId" else None)
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))


def write(record: Handovers) -> None:
    record._written(lambda writer: None, SimpleNamespace())


def test_each_call_is_recorded_under_its_query(tmp_path: Path) -> None:
    record = Handovers(tmp_path)
    seen: list[bool] = []

    def function(rows: Any, batch: int) -> None:
        seen.append(read_handovers(tmp_path)[-1].ended_at is None)
        write(record)

    recorded = record.recorded(function)
    recorded(frame("one"), 0)
    recorded(frame("two"), 0)
    recorded(frame(None), 1)
    calls = read_handovers(tmp_path)
    assert [(call.query_id, call.batch) for call in calls] == [("one", 0), ("two", 0), ("", 1)]
    assert all(call.wrote_at is not None and call.began_at <= call.wrote_at <= (call.ended_at or 0) for call in calls)
    assert seen == [True] * 3, "it is recorded before the function runs"


def test_what_the_function_raises_goes_on_and_is_recorded(tmp_path: Path) -> None:
    record = Handovers(tmp_path)

    def function(rows: Any, batch: int) -> None:
        if batch == 1:
            write(record)
        raise ValueError(batch)

    for batch in (0, 1):
        with pytest.raises(ValueError, match=str(batch)):
            record.recorded(function)(frame("q"), batch)
    assert [(call.raised, call.wrote) for call in read_handovers(tmp_path)] == [(True, False), (True, True)]


def test_a_write_outside_of_a_function_and_one_that_keeps_nothing_do_not_count(tmp_path: Path) -> None:
    record = Handovers(tmp_path)
    write(record)

    def function(rows: Any, batch: int) -> None:
        record._written(lambda writer, **options: None, SimpleNamespace(), format="noop")

    record.recorded(function)(frame("q"), 0)
    assert read_handovers(tmp_path)[0].wrote_at is None


def test_a_folder_that_is_gone_does_not_end_the_batch(tmp_path: Path) -> None:
    calls: list[int] = []
    Handovers(tmp_path / "gone").recorded(lambda rows, batch: calls.append(batch))(frame("q"), 7)
    assert calls == [7]
