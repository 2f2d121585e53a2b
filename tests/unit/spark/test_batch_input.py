"""What a batch read is told by the offset log as long as it holds the batch and its predecessor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructType

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import first_known_batch, require_range
from streamwarden.errors import CheckpointError, InputGone
from streamwarden.sources.base import BatchInput
from streamwarden.sources.files.reader import FilesInput
from streamwarden.sources.kafka.reader import TopicInput
from streamwarden.sources.rows import Rules

RULES = Rules(schema=StructType().add("key", StringType()), required=("key",), written="at", holder="file")
FILES = FilesInput("json", {}, RULES)
TOPIC = TopicInput("orders", RULES, {}, {})


def log(root: Path, batches: range, *, topic: bool) -> str:
    for folder in ("offsets", "sources/0"):
        (root / folder).mkdir(parents=True)
    for batch in batches:
        end = {"orders": {"0": 10 * batch}} if topic else {"logOffset": batch}
        (root / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}')
    for batch in range(0 if topic else batches.stop):  # that log is never purged
        entry = {"path": f"file:///in/{batch}", "timestamp": 1, "batchId": batch}
        (root / "sources/0" / str(batch)).write_text(f"v1\n{json.dumps(entry)}")
    return str(root)


@pytest.mark.parametrize(("source", "topic"), [(FILES, False), (TOPIC, True)], ids=["files", "topic"])
@pytest.mark.parametrize("batch", [3, 7])
def test_a_batch_that_the_log_was_purged_of_is_gone(
    tmp_path: Path, source: BatchInput, topic: bool, batch: int
) -> None:
    """Not one without malformed rows: of these nothing would be told."""
    checkpoint = log(tmp_path, range(7, 12), topic=topic)
    with pytest.raises(InputGone, match=f"batch {batch} .* begins at 7"):
        source.malformed_of(None, open_path(checkpoint), 0, batch)  # type: ignore[arg-type]
    assert first_known_batch(open_path(checkpoint)) == 8


@pytest.mark.parametrize(("source", "topic"), [(FILES, False), (TOPIC, True)], ids=["files", "topic"])
def test_a_batch_whose_own_file_is_damaged_may_be_mended(tmp_path: Path, source: BatchInput, topic: bool) -> None:
    checkpoint = log(tmp_path, range(5), topic=topic)
    if topic:
        (tmp_path / "sources/0/0").write_text('v1\n{"orders":{"0":0}}')
    (tmp_path / "offsets/3").write_text("v1\n{cut")
    with pytest.raises(CheckpointError, match="does not say what batch 3 read"):
        source.malformed_of(None, open_path(checkpoint), 0, 3)  # type: ignore[arg-type]


def test_missing_log_does_not_report_lost_input(tmp_path: Path) -> None:
    """A storage that is not mounted looks like an empty one."""
    assert first_known_batch(open_path(tmp_path)) is None
    with pytest.raises(CheckpointError):
        require_range(open_path(tmp_path), 3)


def test_the_first_batch_needs_no_predecessor(tmp_path: Path) -> None:
    checkpoint = log(tmp_path, range(2), topic=False)
    require_range(open_path(checkpoint), 0)
    assert first_known_batch(open_path(checkpoint)) == 0
