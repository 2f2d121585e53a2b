"""Charts with a line for each operator, or for each partition of a source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamwarden.progress import Progress
from streamwarden.services.overview.parts import MOST, lag_by_partition, lines_of
from support.streams.reports import report

READ = {"clicks": {"0": 90, "1": 80}}
FOUND = {"clicks": {"0": 100, "1": 80, "2": 5}}


def of_source(latest: Any, end: Any) -> Progress:
    source = {"description": "Kafka", "latestOffset": latest, "endOffset": end, "numInputRows": 1}
    return report(1, sources=[source])


@pytest.mark.parametrize("written", [lambda offsets: offsets, json.dumps], ids=["as JSON", "as text"])
def test_a_batch_leaves_a_lag_in_each_partition_that_it_found(written: Any) -> None:
    """A partition that it did not read yet has everything before it."""
    lags = lag_by_partition(of_source(written(FOUND), written(READ)))
    assert lags == {"clicks 0": 10.0, "clicks 1": 0.0, "clicks 2": 5.0}


@pytest.mark.parametrize(
    ("latest", "end"),
    [(None, None), ("no JSON", READ), (7, 3), ({"logOffset": 4}, {"logOffset": 3}), ({"a": {"0": "x"}}, {"a": {}})],
)
def test_a_source_without_partitions_has_no_lag_by_partition(latest: Any, end: Any) -> None:
    assert lag_by_partition(of_source(latest, end)) == {}


def test_offsets_that_went_back_are_no_negative_lag() -> None:
    assert lag_by_partition(of_source({"a": {"0": 5}}, {"a": {"0": 9}})) == {"a 0": 0.0}


def test_a_chart_has_the_parts_whose_newest_values_are_the_largest() -> None:
    """By name, so that a line keeps its colour while the values change."""

    def parts(progress: Progress) -> dict[str, float]:
        return {f"p{number}": float(number * progress.batch_id) for number in range(2 * MOST)}

    found = lines_of(parts, [report(1), report(2)])
    assert len(found) == MOST
    assert [name for name, _ in found] == sorted(f"p{number}" for number in range(MOST, 2 * MOST))
    assert dict(found)[f"p{MOST}"] == [float(MOST), 2.0 * MOST]
