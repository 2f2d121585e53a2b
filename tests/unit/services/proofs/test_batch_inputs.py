"""A sample says in a few words what the batch read that wrote its row."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.services.verifying.batch_inputs import describe_input


def described(folder: Path, *sources: Any) -> str | None:
    """The input of the last of the batches whose offsets these are."""
    (folder / "offsets").mkdir()
    for batch, value in enumerate(sources):
        record = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
        (folder / "offsets" / str(batch)).write_text(f"v1\n{record}\n{json.dumps(value)}")
    return describe_input(len(sources) - 1, checkpoint=open_path(folder), files={})


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}), "t-0 from 5 to 9"),
        (({"t": {"0": 5}}, {"t": {"0": 5, "1": 2}}), "t-1 up to 2"),
        (({"t": {"0": 5}},), "t-0 up to 5"),
        (({"t": {"0": 5}}, {"t": {"0": 5}}), "no record"),
        (
            ({"t": dict.fromkeys("01234", 1)}, {"t": dict.fromkeys("01234", 2)}),
            "t-0 from 1 to 2, t-1 from 1 to 2, t-2 from 1 to 2 and 2 more",
        ),
        ((7, 9), "offset 7 to offset 9"),
    ],
)
def test_a_batchs_offsets_are_those_before_and_after_it(tmp_path: Path, sources: tuple[Any, ...], text: str) -> None:
    assert described(tmp_path, *sources) == text


def test_files_are_named_and_a_batch_without_a_log_is_unknown(tmp_path: Path) -> None:
    files = {3: [Path(f"/in/{name}.json") for name in "abcde"]}
    checkpoint = open_path(tmp_path)
    assert describe_input(3, checkpoint=checkpoint, files=files) == "a.json, b.json, c.json and 2 more"
    assert describe_input(4, checkpoint=checkpoint, files=files) is None
