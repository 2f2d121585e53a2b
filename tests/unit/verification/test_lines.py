"""What a line of JSON is taken for, field by field."""

from collections.abc import Callable

import pytest

from streamwarden.verification.lines import fields, instant, integer, json_object, number, text

AT = 1_357_035_300_000


@pytest.mark.parametrize("line", ["not json", "42", "[1]", '"text"', "null", '{"cut": "of'])
def test_only_a_json_object_is_a_row(line: str) -> None:
    assert json_object(line) is None
    assert fields(line, {}) is None


def test_missing_fields_and_nulls_are_none_and_unknown_fields_are_ignored() -> None:
    assert fields('{"a":null,"c":{"d":1}}', {"a": integer, "b": text}) == {"a": None, "b": None}


def test_one_wrong_field_makes_the_whole_line_malformed() -> None:
    assert fields('{"a":1,"b":"x"}', {"a": integer, "b": text}) == {"a": 1, "b": "x"}
    assert fields('{"a":"1","b":"x"}', {"a": integer, "b": text}) is None


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (text, "as it is", "as it is"),
        (text, 5, "5"),
        (text, True, "true"),
        (text, {"a": [1, "ß"]}, '{"a":[1,"ß"]}'),
        (integer, -(2**31), -(2**31)),
        (instant, "2013-01-01T10:15:00.000Z", AT),
        (instant, "2013-01-01T05:15:00.001-05:00", AT + 1),
        (instant, "2013-01-02T04:15:00.000+18:00", AT),
        (instant, 1_357_035_300, AT),
        (instant, -1, -1000),
        (text, "€" * (2**20 // 3), "€" * (2**20 // 3)),
        (number, 3, 3.0),
        (number, 1e-3, 0.001),
        (instant, 2**62, 0),  # 2**62 x 10**6 is a multiple of 2**64
    ],
)
def test_a_value_that_fits(kind: Callable[[object], object], raw: object, value: object) -> None:
    assert kind(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (text, "x" * (2**20 + 1)),
        (text, "€" * (2**20 // 3 + 1)),
        (number, "1.5"),
        (number, True),
        (integer, "1"),
        (integer, 1.0),
        (integer, True),
        (integer, 2**31),
        (instant, "2013-01-01T10:15:00Z"),
        (instant, "2013-01-01T10:15:00.000"),
        (instant, "2013-13-01T10:15:00.000Z"),
        (instant, "2013-01-01T10:15:00.000+18:01"),
        (instant, "2013-01-01"),
        (instant, ""),
        (instant, 1.5),
        (instant, False),
        (instant, 2**63),
    ],
)
def test_a_value_that_does_not_fit(kind: Callable[[object], object], raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        kind(raw)
