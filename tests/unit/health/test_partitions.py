"""State by partition: what the checkpoint holds of the largest, the median and the smallest one."""

from __future__ import annotations

import pytest

from streamwarden.health.signals.partitions import LARGEST, MEDIAN, SMALLEST, spread
from streamwarden.health.window import StateInstance
from streamwarden.lifecycle.queries import Part
from support.streams.health_windows import NOW, window


def stores(*sizes: int | None, operator: int = 0) -> tuple[StateInstance, ...]:
    return tuple(
        StateInstance(operator=operator, partition=number, snapshot=1, version=1, size=size)
        for number, size in enumerate(sizes)
    )


def found(state: tuple[StateInstance, ...] | None, part: Part = Part.WHOLE) -> dict[str, float]:
    measured = spread(window(state=state, part=part))
    assert {(each.at, each.unit) for each in measured} <= {(NOW, "bytes")}
    return {each.name: each.value for each in measured}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((7,), (7, 7, 7)),
        ((30, 10, 500), (500, 30, 10)),
        ((10, 20, 30, 500), (500, 25, 10)),
        ((0, 0, 0), (0, 0, 0)),
    ],
)
def test_largest_median_and_smallest(sizes: tuple[int, ...], expected: tuple[float, ...]) -> None:
    assert found(stores(*sizes)) == dict(zip((LARGEST, MEDIAN, SMALLEST), expected, strict=True))


def test_a_partition_holds_the_state_of_all_operators_and_of_all_stores_of_a_join() -> None:
    """A join keeps several stores for each partition; a query may have a second stateful operator."""
    join = (*stores(10, 20), *stores(1, 2))
    assert found((*join, *stores(100, 300, operator=1))) == {LARGEST: 322, MEDIAN: 216.5, SMALLEST: 111}


@pytest.mark.parametrize("state", [None, (), stores(None, None)], ids=["unread", "stateless", "sizes unknown"])
def test_what_was_not_measured_is_no_measurement(state: tuple[StateInstance, ...] | None) -> None:
    """A zero would draw a state that vanished."""
    assert found(state) == {}


def test_the_state_of_a_query_is_not_recorded_for_the_driver_that_it_shares() -> None:
    assert found(stores(1, 2), Part.DRIVER) == {}
    assert len(found(stores(1, 2), Part.QUERY)) == 3
