"""Durations and sizes as people write them."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.units import (
    GB,
    format_duration,
    format_fact,
    format_list,
    format_size,
    parse_duration,
    parse_signed_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("2 seconds", 2),
        ("10m", 600),
        ("1h", 3600),
        ("250 ms", 0.25),
        ("1.5 h", 5400),
        (7, 7),
        ("1d", 86400),
    ],
)
def test_durations_read_as_people_write_them(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("5 GB", 5 * GB), ("5GiB", 5 * 2**30), ("512 mb", 512_000_000), (1024, 1024), ("1.5 kB", 1500), ("10 B", 10)],
)
def test_sizes_are_decimal_unless_they_say_binary(text: str | float, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "soon", "5 parsecs", "-3s", -1, True, "1h30", "1e3 s", float("nan"), float("inf")]
)
def test_invalid_duration_is_refused_with_the_allowed_form(text: str | float) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "seconds"), [("1h", 3600), ("-1h", -3600), (" -30 s", -30), (-7.5, -7.5), (0, 0)])
def test_a_signed_duration_may_go_back(text: str | float, seconds: float) -> None:
    assert parse_signed_duration(text) == seconds


@pytest.mark.parametrize("text", ["--1h", "-", "-soon", True, float("nan"), float("-inf")])
def test_what_is_no_signed_duration_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s"):
        parse_signed_duration(text)


@pytest.mark.parametrize("text", ["", "big", "5 GHz", "-5 GB", False, -1])
def test_invalid_size_is_refused_with_the_allowed_form(text: str | float) -> None:
    with pytest.raises(ValueError, match="is not a size such as 512 MB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.25, "250 ms"), (12.34, "12.3 s"), (60, "1m"), (754, "12m 34s"), (90000, "1d 1h"), (3600, "1h")],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (123_400_000, "123 MB"),
        (99_960, "100 kB"),
        (2 * GB, "2.0 GB"),
        (3 * 10**12, "3.0 TB"),
    ],
)
def test_sizes_are_shown_in_decimal_units(count: int, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize("parse", [parse_duration, parse_size])
@pytest.mark.parametrize(
    "text", [1e300, 10**309, f"{'9' * 400} s", f"{'9' * 30} d", f"{'9' * 30} TB"], ids=lambda _: ""
)
def test_a_quantity_beyond_every_use_is_refused(parse: Callable[[object], object], text: object) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse(text)


def test_text_that_almost_fits_is_refused_at_once() -> None:
    started = time.process_time()
    for text in (f"1{' ' * 100_000}!", f"{' ' * 100_000}1!", f"1{'s' * 100_000}!"):
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(text)
    assert time.process_time() - started < 1


@given(st.integers(min_value=0, max_value=10**15))
def test_a_plain_number_is_bytes(count: int) -> None:
    assert parse_size(count) == count


@given(st.floats(min_value=0, max_value=10**9))
def test_every_duration_can_be_shown(seconds: float) -> None:
    assert format_duration(seconds)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("gone_since", 1795537203.667, "2026-11-24 16:20:03 UTC"),
        ("due_at", 1795537203, "2026-11-24 16:20:03 UTC"),
        ("batches", 12345, "12,345"),
        ("batch_id", 12345, "12345"),
        ("latency_ms", 0.0465712, "0.0466"),
        ("bytes", 5594871.25, "5,594,871"),
        ("restarts", True, "True"),
        ("restarter", "paused dag", "paused dag"),
        ("ended_at", None, "None"),
    ],
)
def test_a_fact_is_shown_as_a_person_reads_it(name: str, value: object, shown: str) -> None:
    assert format_fact(name, value) == shown


@pytest.mark.parametrize(
    ("items", "shown"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_list_reads_as_people_write_it(items: list[str], shown: str) -> None:
    assert format_list(iter(items)) == shown
