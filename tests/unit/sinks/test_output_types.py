"""What each sink says of its columns' types, held against what an oracle may declare."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from streamwarden.sinks.kafka.delivery import delivered
from streamwarden.sinks.output_types import arrow_type, json_types, postgresql_type
from streamwarden.verification.comparing.column_types import parse_type
from streamwarden.verification.comparing.events import CommittedRecords, Event


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "tinyint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.string(), "string"),
        (pa.binary(), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.list_(pa.struct([("a", pa.int64()), ("b", pa.float64())])), "array<struct<a:bigint,b:double>>"),
        (pa.map_(pa.string(), pa.int64()), "map<string,bigint>"),
    ],
)
def test_a_parquet_column_has_exactly_one_of_sparks_types(kind: pa.DataType, name: str) -> None:
    assert arrow_type(kind).shown == name
    assert arrow_type(kind).agrees(parse_type(name))
    others = {"bigint", "double", "string", "array<struct<a:bigint,b:bigint>>", "map<string,double>"} - {name}
    assert [other for other in others if arrow_type(kind).agrees(parse_type(other))] == []


@pytest.mark.parametrize(
    ("text", "fits", "does_not"),
    [
        ("5", ["int", "bigint", "decimal(5,0)"], ["double", "string", "boolean"]),
        ("5.0", ["double", "float", "decimal(5,1)"], ["bigint", "string"]),
        ("1.0E10", ["double"], ["bigint"]),
        ("NaN", ["double"], ["bigint", "string"]),
        ("true", ["boolean"], ["int", "string"]),
        ('"a"', ["string", "timestamp", "date", "binary", "double"], ["bigint", "boolean", "array<string>"]),
        ("[1, 2]", ["array<bigint>"], ["array<double>", "string", "struct<a:int>"]),
        ("[1, 2.5]", [], ["array<bigint>", "array<double>"]),
        ("[]", ["array<bigint>"], ["string"]),
        ('{"a": 1}', ["struct<a:int>", "map<string,int>"], ["struct<a:double>", "map<string,double>", "array<int>"]),
        ("null", ["bigint", "string"], []),
    ],
)
def test_json_value_distinguishes_integers_fractions_and_texts(text: str, fits: list[str], does_not: list[str]) -> None:
    kinds = list(json_types(json.loads(text, parse_float=Decimal)))
    assert [name for name in fits if not all(kind.agrees(parse_type(name)) for kind in kinds)] == []
    assert [name for name in does_not if all(kind.agrees(parse_type(name)) for kind in kinds)] == []


@pytest.mark.parametrize(
    ("written", "fits", "does_not"),
    [
        ("int8", ["bigint", "int"], ["double", "string"]),
        ("int4", ["int"], ["bigint"]),
        ("float8", ["double", "float"], ["bigint"]),
        ("numeric(10, 2)", ["decimal(10,2)"], ["double", "bigint"]),
        ("varchar(10)", ["string"], ["binary"]),
        ("timestamptz", ["timestamp"], ["timestamp_ntz", "string"]),
        ("int8[]", ["array<bigint>"], ["array<double>", "bigint"]),
        ("jsonb", ["struct<a:int>", "map<string,int>", "array<array<int>>"], ["string"]),
        ("inet", ["string", "bigint"], []),
    ],
)
def test_a_tables_column_fits_the_types_that_the_sink_writes_into_it(
    written: str, fits: list[str], does_not: list[str]
) -> None:
    kind = postgresql_type(written)
    assert [name for name in fits if not kind.agrees(parse_type(name))] == []
    assert [name for name in does_not if kind.agrees(parse_type(name))] == []


def test_a_topics_columns_have_every_type_that_some_record_shows() -> None:
    values = ({"n": 1, "name": None}, {"n": 2.0, "name": "a", "salt": True})
    events = [Event(b"k", json.dumps(value).encode(), "id", "query", batch) for batch, value in enumerate(values)]
    output = delivered(events, CommittedRecords("query", 1), {})
    assert {name: [kind.shown for kind in kinds] for name, kinds in output.types.items()} == {
        "n": ["a JSON number with a fraction", "a JSON number without a fraction"],
        "name": ["a JSON text"],
        "salt": ["a JSON boolean"],
    }
