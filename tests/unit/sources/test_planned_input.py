"""The files of a batch that is planned and not committed are looked for before the query starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import InputGone
from streamwarden.lifecycle.failures.causes import INPUT_FILE_GONE, cause_of
from streamwarden.sources.base import StoredSource
from streamwarden.sources.files.planned_input import missing_files, require_planned_input
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.spark.driver.failures import chain_of, describe
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, remove, stream_of
from support.checkpoints.recorded import replace as replace_file

LAST = 12
"""The newest batch of the checkpoint that read a file."""


@pytest.fixture
def stream(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """A stream whose last batch is planned and not committed."""
    checkpoint = unpack("spark-4.3.0-changelog", tmp_path)
    found = stream_of(tmp_path, files=17)
    for log, batch in (("offsets", LAST + 1), ("commits", LAST + 1), ("commits", LAST)):
        remove(checkpoint / log / str(batch))
    return found


def planned(stream: StreamSpec) -> Path:
    (uri,) = file_source_log(open_path(stream.checkpoint))[LAST]
    return Path(to_path(uri))


def test_every_file_is_there(stream: StreamSpec) -> None:
    assert planned(stream).is_file()
    assert missing_files(stream) == []


def test_a_file_that_is_gone_is_named(stream: StreamSpec) -> None:
    planned(stream).unlink()
    with pytest.raises(InputGone, match=planned(stream).name) as error:
        require_planned_input(stream)
    assert error.value.next_step == INPUT_FILE_GONE.next_step


def test_a_file_of_a_batch_that_is_committed_is_not_needed(stream: StreamSpec) -> None:
    (Path(stream.checkpoint) / "commits" / str(LAST)).write_text("v1\n{}")
    planned(stream).unlink()
    assert missing_files(stream) == []


@pytest.mark.parametrize("option", ["ignoreMissingFiles", "IGNOREMISSINGFILES"])
def test_who_accepts_the_loss_goes_on(stream: StreamSpec, option: str) -> None:
    planned(stream).unlink()
    assert missing_files(stream) == [str(planned(stream))]
    assert missing_files(replace(stream, source=replace(stream.source, options={option: "TRUE"}))) == []


def test_the_runner_asks_the_source_and_a_topic_leaves_it_to_spark(stream: StreamSpec) -> None:
    planned(stream).unlink()
    assert isinstance(stream.source, StoredSource)
    with pytest.raises(InputGone):
        stream.source.require_planned(stream)
    KafkaSource(connection="events", topic="flights").require_planned(stream)


def test_a_checkpoint_that_is_damaged_or_not_there_is_left_to_spark(stream: StreamSpec, tmp_path: Path) -> None:
    replace_file(Path(stream.checkpoint) / "offsets" / str(LAST), b"v1\n{")
    assert missing_files(stream) == []
    assert missing_files(replace(stream, checkpoint=str(tmp_path / "none"))) == []


def test_the_exit_names_the_cause_and_a_restart_does_not_cure_it(stream: StreamSpec) -> None:
    planned(stream).unlink()
    with pytest.raises(InputGone) as raised:
        require_planned_input(stream)
    assert cause_of(chain_of(raised.value), started=False) is INPUT_FILE_GONE
    assert not INPUT_FILE_GONE.curable
    kind, message = describe(raised.value, stream.job)
    assert kind == "InputGone"
    assert planned(stream).name in message
