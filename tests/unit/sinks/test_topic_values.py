"""From the JSON of a record back to the types that the oracle has."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan

import pytest

from streamwarden.sinks.json_values import typed
from streamwarden.verification.oracle import Expectation, RowCounts

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
COUNTS = RowCounts(records=0, malformed=0, pairs=0, dropped=0, emitted=0, emitted_before=0, open=0)


@pytest.mark.parametrize(
    ("value", "like", "meant"),
    [
        ("2013-01-01T12:00:00.000000Z", NOON, NOON),
        ("2013-01-01T12:00:00.000004", NOON, datetime(2013, 1, 1, 12, 0, 0, 4)),
        ("2013-01-01", date(1, 1, 1), date(2013, 1, 1)),
        ("AP8=", b"x", b"\x00\xff"),
        ("Infinity", 1.0, float("inf")),
        (Decimal("0.1"), 1.0, 0.1),
        (Decimal("0.10"), Decimal(1), Decimal("0.10")),
        (3, Decimal(1), Decimal(3)),
        (3, 1, 3),
        (None, NOON, None),
        ("2013-01-01T12:00:00.000000Z", "a text", "2013-01-01T12:00:00.000000Z"),
        ("2013-01-01T12:00:00.000000Z", None, "2013-01-01T12:00:00.000000Z"),
        (["2013-01-01T12:00:00.000000Z", None], [None, NOON], [NOON, None]),
        ({"at": "2013-01-01T12:00:00.000000Z", "n": 1}, {"at": NOON, "n": 2}, {"at": NOON, "n": 1}),
        ("no instant", NOON, "no instant"),
        ("no base64!", b"x", "no base64!"),
    ],
)
def test_a_value_is_of_the_oracles_type(value: object, like: object, meant: object) -> None:
    found = typed(value, like)
    assert found == meant
    assert type(found) is type(meant)


def test_not_a_number_is_one_float_of_its_own() -> None:
    found = typed("NaN", 1.0)
    assert isinstance(found, float)
    assert isnan(found)


def test_first_row_that_shows_a_columns_type_is_its_sample() -> None:
    rows = {(1,): (None, []), (2,): (None, [None]), (3,): (NOON, [NOON])}
    expectation = Expectation(key_columns=("id",), value_columns=("at", "times"), rows=rows, counts=COUNTS)
    assert expectation.samples() == {"id": 1, "at": NOON, "times": [NOON]}
