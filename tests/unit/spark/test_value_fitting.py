"""What a person gives as a value of state fits its schema, or is refused with the field named."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StructType

from streamwarden.errors import ConfigError
from streamwarden.spark.state.fitting import fitted

TAGS = {"type": "array", "elementType": "string", "containsNull": True}
WHOLE = {"type": "array", "elementType": "integer", "containsNull": False}
OPEN = {"type": "struct", "fields": [
    {"name": "since", "type": "timestamp", "nullable": True, "metadata": {}},
    {"name": "tags", "type": TAGS, "nullable": True, "metadata": {}},
]}  # fmt: skip
NAMES = {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}
NESTED: dict[str, Any] = {"OPEN": OPEN, "NAMES": NAMES, "WHOLE": WHOLE}
SESSION = "n long, text string, open OPEN"


def kind(fields: str) -> StructType:
    """A schema of `name type, ...`; a type that ends with `!` is never null."""
    named = [field.split(" ") for field in fields.split(", ")]
    return StructType.fromJson({"type": "struct", "fields": [
        {"name": name, "type": NESTED.get(of, of.rstrip("!")), "nullable": not of.endswith("!"), "metadata": {}}
        for name, of in named
    ]})  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "given", "row"),
    [
        ("n long", ["7"], (7,)),
        ("n long", ["n=7"], (7,)),
        ("n long", ['{"n": 7}'], (7,)),
        ("n long", ["null"], (None,)),
        ("text string", ["7"], ("7",)),
        ("text string", ["a=b"], ("a=b",)),
        ("n long, text string", ["text=a=b", "n=-1"], (-1, "a=b")),
        ("a byte, b short, c integer", ['{"a":-128,"b":32767,"c":-2147483648}'], (-128, 32767, -(2**31))),
        ("x double, y float", ["x=0.1", "y=NaN"], None),
        ("x double, y float", ["x=-Infinity", "y=3"], (float("-inf"), 3.0)),
        ("price decimal(5,2)", ["12.50"], (Decimal("12.50"),)),
        ("price decimal(38,18)", ['{"price": 12345678901234567890.123456789012345678}'],
         (Decimal("12345678901234567890.123456789012345678"),)),
        ("yes boolean, day date", ["yes=true", "day=2013-01-31"], (True, date(2013, 1, 31))),
        ("raw binary", ["AAE="], (bytearray(b"\x00\x01"),)),
        ("at timestamp", ["2013-01-31T12:00:00.000001Z"], (datetime(2013, 1, 31, 12, 0, 0, 1, UTC),)),
        ("at timestamp_ntz", ["2013-01-31T12:00:00"], (datetime(2013, 1, 31, 12),)),
        (SESSION, ['{"n":1,"text":null,"open":{"since":"2013-01-01T01:00:00+01:00","tags":["a",null]}}'],
         (1, None, (datetime(2013, 1, 1, tzinfo=UTC), ["a", None]))),
        ("m NAMES", ['{"m": {"1": "a", "2": null}}'], ({1: "a", 2: None},)),
    ],
)  # fmt: skip
def test_a_value_that_fits(fields: str, given: list[str], row: Any) -> None:
    found = fitted(given, kind(fields))
    assert row is None or tuple(found) == row


@pytest.mark.parametrize(
    ("fields", "given", "observed", "expected"),
    [
        ("n long, text string", ["n=7"], "text is missing", "exactly the fields n, text"),
        ("n long, text string", ['{"n":1,"text":"a","more":2}'], "there is no field more", "exactly the fields"),
        ("n long, text string", ["7"], "'7' names no field", "FIELD=VALUE for each of n, text"),
        ("n long, text string", ["n=7", "n=8", "text=a"], "n: it is given twice", "one value"),
        ("n long", ['{"n": 7'], "is no JSON", "an object"),
        ("n long", ["7.0"], 'n: it is "7.0"', "bigint"),
        ("n long", ["true"], "n: it is true", "bigint"),
        ("n long", ["seven"], 'n: it is "seven"', "bigint"),
        ("n long", [str(2**63)], "n: it is 9223372036854775808", "bigint"),
        ("n byte", ["128"], "n: it is 128", "tinyint"),
        ("n long!", ["null"], "n: it is null", "bigint: this field is never null"),
        ("text string", ['{"text": 7}'], "text: it is 7", "string"),
        ("x double", ["1e400"], 'x: it is "1E+400"', "double"),
        ("x float", ["1e39"], 'x: it is "1E+39"', "float"),
        ("x double", ["false"], "x: it is false", "double"),
        ("price decimal(5,2)", ["1.001"], "price: it is", "decimal(5,2)"),
        ("price decimal(5,2)", ["1000"], "price: it is 1000", "decimal(5,2)"),
        ("price decimal(38,18)", ["0.1234567890123456789"], "price: it is", "decimal(38,18)"),
        ("price decimal(38,18)", ["1e999999999"], "price: it is", "decimal(38,18)"),
        ("price decimal(5,2)", ["dear"], "price: it is", "decimal(5,2)"),
        ("raw binary", ["?"], "raw: it is", "binary as base64"),
        ("raw binary", ["7"], "raw: it is 7", "binary as base64"),
        ("day date", ["31.1.2013"], "day: it is", "date such as"),
        ("at timestamp", ["2013-01-31T12:00:00"], "at: it is", "with the offset of its zone"),
        ("at timestamp_ntz", ["2013-01-31T12:00:00Z"], "at: it is", "timestamp_ntz such as"),
        ("yes boolean", ["1"], "yes: it is 1", "boolean"),
        (SESSION, ['{"n":1,"text":"","open":{"since":null,"tags":["a",7]}}'], "open.tags[1]: it is 7", "string"),
        (SESSION, ['{"n":1,"text":"","open":{"tags":[]}}'], "open: since is missing", "exactly the fields since, tags"),
        (SESSION, ['{"n":1,"text":"","open":7}'], "open: it is 7", "struct<"),
        ("m NAMES", ['{"m": {"one": "a"}}'], 'a key of m: it is "one"', "int"),
        ("m NAMES", ['{"m": []}'], "m: it is []", "map<int,string>"),
        ("l WHOLE", ["[null]"], "l[0]: it is null", "int: this field is never null"),
        ("v variant", ["7"], "v: it is of type variant", "a field of a type that can be written as text"),
    ],
)
def test_a_value_that_does_not_fit(fields: str, given: list[str], observed: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        fitted(given, kind(fields))
    assert observed in refused.value.observed
    assert expected in refused.value.expected
    assert refused.value.where == "--value"
