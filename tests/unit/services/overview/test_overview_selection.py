"""Which rows the fleet page shows, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.health.verdict import Status
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.selection import Selection, Sort, select, totals
from support.streams.stream_rows import stream_row


def row(name: str, **fields: Any) -> StreamRow:
    return stream_row(name, **{"owner": "", **fields})


ROWS = [
    row("orders", owner="Shop", tags=("money",), backlog_seconds=3.0, rows_in_per_second=10.0),
    row("clicks", backlog_seconds=90.0, health=Status.WARNING, rows_in_per_second=5.0),
    row("fraud", state="down", open_incidents=2, description="Finds MONEY laundering"),
    row("fraud/alerts", state="down", open_incidents=1),
    row("archive", state="stopped"),
]


def shown(**chosen: Any) -> list[str]:
    return [each.stream for each in select(ROWS, Selection(**chosen))]


def test_streams_in_trouble_come_first_then_by_name() -> None:
    assert shown() == ["fraud", "fraud/alerts", "clicks", "orders", "archive"]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"text": "money"}, ["fraud", "orders"]),
        ({"text": "SHOP"}, ["orders"]),
        ({"state": "down"}, ["fraud", "fraud/alerts"]),
        ({"health": Status.WARNING}, ["clicks"]),
        ({"tag": "money"}, ["orders"]),
        ({"trouble": True}, ["fraud", "fraud/alerts"]),
        ({"text": "nothing"}, []),
    ],
)
def test_selection_keeps_matching_streams(chosen: dict[str, Any], expected: list[str]) -> None:
    assert shown(**chosen) == expected


def test_rows_without_a_value_come_last_in_both_directions() -> None:
    assert shown(sort=Sort.BACKLOG)[:2] == ["orders", "clicks"]
    assert shown(sort=Sort.BACKLOG, descending=True)[:2] == ["clicks", "orders"]


@pytest.mark.parametrize("sort", list(Sort))
def test_every_column_can_be_sorted_by(sort: Sort) -> None:
    assert sorted(shown(sort=sort)) == sorted(each.stream for each in ROWS)


def test_a_query_of_several_is_no_stream_of_its_own_in_the_totals() -> None:
    found = totals(ROWS)
    assert (found.streams, found.in_trouble, found.open_incidents) == (4, 1, 3)
    assert found.by_state == {"running": 2, "down": 1, "stopped": 1}
    assert found.rows_in_per_second == 15.0
