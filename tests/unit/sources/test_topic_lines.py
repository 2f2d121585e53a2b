"""A record's value as one line of a file."""

import json

import pytest

from streamwarden.sources.kafka.export import line


@pytest.mark.parametrize("value", [b'{"a": 1}', b'  {"a":"\xc3\xa4"} ', b"no json", b"[1,\t2]"])
def test_a_line_stays_as_it_is(value: bytes) -> None:
    assert line(value) == value.decode()


def test_an_object_over_several_lines_says_the_same_on_one() -> None:
    told = line(b'{\n  "a": "b\\nc",\n  "d": [1, 2]\n}')
    assert "\n" not in told
    assert json.loads(told) == {"a": "b\nc", "d": [1, 2]}


@pytest.mark.parametrize("value", [None, b"", b" \n ", b'{"a":\n', b'{"a": "a raw\nbreak"}'])
def test_what_no_line_can_hold_stays_a_record_that_is_no_object(value: bytes | None) -> None:
    """A blank line would be no record at all."""
    told = line(value)
    assert told.strip()
    assert "\n" not in told
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(told)


def test_an_object_with_carriage_returns_between_its_parts_stays_one_line() -> None:
    """The oracle splits lines at carriage returns too, as Spark's file sources do; a record is never split."""
    written = line(b'{"a": 1,\r "b": 2}')
    assert "\r" not in written
    assert json.loads(written) == {"a": 1, "b": 2}
