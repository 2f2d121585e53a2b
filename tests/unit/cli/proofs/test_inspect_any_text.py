"""`inspect` shows a checkpoint whose files hold text that no terminal and no calendar has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.checkpoints.recorded import Unpack, rewrite
from support.command_line import CommandLine

OFFSETS, COMMIT = "offsets/13", "commits/13"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (COMMIT, "1356999079000", "9223372036854775807"),
        (OFFSETS, '"batchTimestampMs":1795275681002', '"batchTimestampMs":9223372036854775807'),
        (OFFSETS, '"batchTimestampMs":1795275681002', '"batchTimestampMs":-9223372036854775808'),
        (OFFSETS, '{"logOffset":12}', '{"\\ud800":"\\u001b[31m [bold]"}'),
        ("metadata", '"id":"', '"id":"\\udfff'),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_values_that_cannot_be_formatted_are_still_shown(
    path: str, old: str, new: str, options: tuple[str, ...], cli: CommandLine, unpack: Unpack, tmp_path: Path
) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path / "query")
    text = (checkpoint / path).read_text()
    assert old in text
    rewrite(checkpoint / path, text.replace(old, new).encode())
    answer = cli("inspect", str(checkpoint), *options)
    assert answer.code in (0, 1), answer
    assert "Traceback" not in answer.err
    assert answer.out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_name_that_is_not_utf_8_is_shown_somehow(
    options: tuple[str, ...], cli: CommandLine, unpack: Unpack, tmp_path: Path
) -> None:
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path / "query")
    (checkpoint / os.fsdecode(b"state/0/0/\xff")).mkdir()
    (checkpoint / os.fsdecode(b"state/0/0/\xff/1.changelog")).touch()
    answer = cli("inspect", str(checkpoint), *options)
    assert answer.code == 0
    assert answer.out
