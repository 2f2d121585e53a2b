"""Every value that a row can have comes back from PostgreSQL as it went in."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamwarden.errors import JobError
from streamwarden.sinks.postgresql.table import Column, fits
from support.oracles.sink_tables import Base, batch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)

TYPES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(width=32),
    "double precision": st.floats(),
    "numeric(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda digits: Decimal(f"{digits}e-10")),
    "text": TEXT,
    "bytea": st.binary(max_size=30),
    "date": st.dates(),
    "timestamp with time zone": st.datetimes(timezones=st.just(UTC)),
    "timestamp without time zone": st.datetimes(),
    "jsonb": JSON,
}


def sent(kind: str, value: Any) -> Any:
    """What the sink is given for a value: instants and days as numbers, JSON as text."""
    if isinstance(value, list) and kind.endswith("[]"):
        return [sent(kind.removesuffix("[]"), each) for each in value]
    if kind == "jsonb" and value is not None:
        return json.dumps(value)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right and (not isinstance(left, float) or math.copysign(1, left) == math.copysign(1, right)))


COLUMNS = [*TYPES, *(f"{kind}[]" for kind in TYPES if kind != "jsonb")]


@st.composite
def rows(draw: st.DrawFn) -> tuple[Any, ...]:
    one = [draw(st.none() | each) for each in TYPES.values()]
    many = [draw(st.none() | st.lists(st.none() | TYPES[kind], max_size=3)) for kind in TYPES if kind != "jsonb"]
    return (*one, *many)


@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(rows(), min_size=1, max_size=3))
def test_values_of_every_type_come_back(base: Base, given_rows: list[tuple[Any, ...]]) -> None:
    base.ask("DROP TABLE IF EXISTS every, streamwarden_sink")
    columns = [Column(f"c{number}", kind) for number, kind in enumerate(COLUMNS)]
    asked = [tuple(sent(kind, value) for kind, value in zip(COLUMNS, row, strict=True)) for row in given_rows]
    base.sink("every", columns).write(batch(0, asked))
    with psycopg.connect(base.server.connection(base.name)) as session:
        session.execute("SET timezone TO 'UTC'")
        came = session.cursor(binary=True).execute("SELECT * FROM every").fetchall()
    for before, after in zip(given_rows, came, strict=True):
        for kind, left, right in zip(COLUMNS, before, after, strict=False):
            assert same(left, right), kind


def test_instants_and_days_that_python_does_not_know_come_through(base: Base) -> None:
    columns = [Column("day", "date"), Column("at", "timestamp with time zone")]
    sink = base.sink("days", columns)
    day = -719_528 - 365  # 365 days before 0000-01-01, the first of the year 2 BC
    sink.write(batch(0, [(day, day * 86_400_000_000 + 1), (2_932_897, 253_402_300_800_000_000)]))
    assert base.ask("SELECT day::text, at::text FROM days") == [
        ("0002-01-01 BC", "0002-01-01 00:00:00.000001+00 BC"),
        ("10000-01-01", "10000-01-01 00:00:00+00"),
    ]
    with pytest.raises(JobError, match=r"out of range.*column day"):
        sink.write(batch(1, [(-3_000_000, 0)]))
    with pytest.raises(JobError, match="a row of batch 1 cannot be written"):
        sink.write(batch(1, [(-(2**31), 0)]))


def test_a_text_of_fifty_megabytes_comes_through(base: Base) -> None:
    base.sink("texts", [Column("body", "text")]).write(batch(0, [("x" * 50_000_000,)]))
    assert base.ask("SELECT length(body) FROM texts") == [(50_000_000,)]


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        ("bigint", "bigint", True),
        ("integer", "bigint", True),
        ("bigint", "integer", False),
        ("real", "double precision", True),
        ("double precision", "real", False),
        ("text", "character varying", True),
        ("text", "character varying(20)", False),
        ("numeric(10,2)", "numeric", True),
        ("numeric(10,2)", "numeric(12,4)", True),
        ("numeric(10,2)", "numeric(12,1)", False),
        ("numeric(10,2)", "numeric(10,4)", False),
        ("integer[]", "bigint[]", True),
        ("integer[]", "bigint", False),
        ("timestamp with time zone", "timestamp(3) with time zone", False),
        ("jsonb", "json", False),
    ],
)
def test_a_column_must_hold_every_value_unchanged(mine: str, its: str, expected: bool) -> None:
    assert fits(mine, its) is expected
