"""A YAML file is edited in place: what is not asked for stays as it is, to the byte."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import yaml

from streamwarden.errors import ConfigError
from streamwarden.services.upgrades.editing import edited, unified_diff, value_at

STREAMS = Path(__file__).parents[4] / "config/streams"
DELTAS = ("spark", "conf", "spark.sql.streaming.stateStore.minDeltasForSnapshot")
VALUES = {("trigger", "processing_time"): "9 seconds", DELTAS: "2", ("spark", "driver_memory"): "3 GB"}


def changed(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize("file", sorted(STREAMS.glob("*.yaml")), ids=lambda file: file.stem)
def test_of_a_shipped_file_only_these_lines_change(file: Path) -> None:
    before = file.read_text()
    after = edited(before, VALUES, file.name)
    lines = changed(before, after)
    assert [line.split(":")[0].strip("+- ") for line in lines if line.startswith("-")] == [
        "processing_time",
        "driver_memory",
    ]
    assert len(lines) <= 6
    assert [line for line in before.splitlines() if "#" in line and "processing_time" not in line] == [
        line for line in after.splitlines() if "#" in line and "processing_time" not in line
    ]
    assert all(value_at(after, key) == value for key, value in VALUES.items())


def test_the_comment_behind_a_value_stays() -> None:
    assert edited("a: {b: 1}   # why\n", {("a", "b"): "x y"}, "f") == "a: {b: x y}   # why\n"


def test_a_new_key_is_above_the_comment_of_the_next_section() -> None:
    before = "spark:\n  # where\n  master: a   # here\n\n# about the next\nz: 1\n"
    after = edited(before, {("spark", "conf", "spark.x"): "7"}, "f")
    assert after == "spark:\n  # where\n  master: a   # here\n  conf:\n    spark.x: '7'\n\n# about the next\nz: 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("spark: {}\n", "spark: {conf: {x.y: v w}}\n"),
        ("spark: {conf: {a: b}} # c\n", "spark: {conf: {a: b, x.y: v w}} # c\n"),
        ("spark:\nb: 1\n", "spark:\n  conf:\n    x.y: v w\nb: 1\n"),
        ("b:\n- 1\n- 2", "b:\n- 1\n- 2\nspark:\n  conf:\n    x.y: v w\n"),
        ("b: 1\r\n", "b: 1\r\nspark:\r\n  conf:\r\n    x.y: v w\r\n"),
        ("b: >-\n  long\n  text\n\n# end\n", "b: >-\n  long\n  text\n\nspark:\n  conf:\n    x.y: v w\n# end\n"),
        ("spark:\n    conf:\n        x.y: 'old'\n", "spark:\n    conf:\n        x.y: v w\n"),
    ],
    ids=["empty braces", "braces", "no value", "no newline at the end", "CRLF", "folded text", "quoted, four columns"],
)
def test_a_key_is_added_in_the_form_that_is_there(before: str, after: str) -> None:
    result = edited(before, {("spark", "conf", "x.y"): "v w"}, "f")
    assert yaml.safe_load(result) == yaml.safe_load(after)
    assert [line for line in changed(before, result) if line.startswith("-")] == [
        line for line in changed(before, after) if line.startswith("-")
    ]
    assert "\r" not in result.replace("\r\n", "") or "\r" not in before


@pytest.mark.parametrize("text", ["- a\n", "spark: here\n", "", "spark: null\n"])
def test_what_is_no_mapping_is_refused_with_what_to_write(text: str) -> None:
    """Negative control: a value would be lost, or the file be another one."""
    with pytest.raises(ConfigError, match="without changing something else") as error:
        edited(text, {("spark", "driver_memory"): "3 GB"}, "orders.yaml")
    assert "spark.driver_memory: 3 GB" in error.value.next_step


def test_numbers_become_text_and_quotes_are_escaped() -> None:
    assert edited("a: 1\n", {("a",): "2"}, "f") == "a: '2'\n"
    assert edited("a: 1\n", {("a",): "it's: x"}, "f") == "a: 'it''s: x'\n"


def test_the_value_at_a_place_is_what_is_written_there() -> None:
    text = "a:\n  b: 1 second  # c\n  d: [1]\n"
    assert value_at(text, ("a", "b")) == "1 second"
    assert [value_at(text, key) for key in (("a", "x"), ("a", "d"), ("a",), ("x", "y"))] == [None] * 4


def test_the_diff_names_the_file() -> None:
    assert unified_diff("a: 1\n", "a: 2\n", "f.yaml").splitlines() == [
        "--- f.yaml",
        "+++ f.yaml (advised)",
        "@@ -1 +1 @@",
        "-a: 1",
        "+a: 2",
    ]
