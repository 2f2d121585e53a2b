"""A drill that cannot come to a verdict is refused with the reason, and nothing is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream import SinkSpec, StreamSpec


@pytest.fixture
def stream(tmp_path: Path) -> StreamSpec:
    """A stream that can be drilled."""
    (tmp_path / "jobs/oracles").mkdir(parents=True)
    (tmp_path / "jobs/job.py").write_text("def build(spark, spec): ...\n")
    (tmp_path / "jobs/oracles/job.py").write_text("def expected(inputs, facts): ...\n")
    return StreamSpec(
        name="flights",
        job=str(tmp_path / "jobs/job.py"),
        checkpoint=str(tmp_path / "data/checkpoint"),
        source=FilesSource(path=str(tmp_path / "data/input")),
        sink=ParquetSink(path=str(tmp_path / "data/output")),
    )


def refusal(stream: StreamSpec, feed: Feed = Feed.ORIGIN) -> DrillAborted:
    data = Path(stream.checkpoint).parent
    with pytest.raises(DrillAborted) as error:
        DrillForks(DrillArchive(data), lambda _: stream).declared(stream.name, feed)
    assert not data.exists()
    assert error.value.next_step
    return error.value


def test_a_stream_with_an_oracle_and_a_build_can_be_drilled(stream: StreamSpec) -> None:
    forks = DrillForks(DrillArchive(Path(stream.checkpoint).parent), lambda _: stream)
    assert forks.declared(stream.name, Feed.ORIGIN).name == "flights"


def test_a_stream_without_an_oracle_is_refused(stream: StreamSpec) -> None:
    oracle = Path(stream.job).parent / "oracles/job.py"
    oracle.unlink()
    error = refusal(stream)
    assert error.observed == "the job has no oracle"
    assert error.where == str(oracle)


@pytest.mark.parametrize("text", ["raise ImportError('pandas')", "def expcted(): ...", "def expected(:"])
def test_an_oracle_that_cannot_be_used_is_refused(stream: StreamSpec, text: str) -> None:
    (Path(stream.job).parent / "oracles/job.py").write_text(text)
    assert "the oracle" in refusal(stream).observed


def test_a_script_is_refused_although_its_file_declares_folders(stream: StreamSpec) -> None:
    Path(stream.job).write_text("df.writeStream.start()\n")
    assert "is a script, which chooses its checkpoint and its output itself" in refusal(stream).observed


def test_a_job_that_is_gone_is_refused(stream: StreamSpec) -> None:
    Path(stream.job).unlink()
    assert "the job cannot be read" in refusal(stream).observed


def test_a_sink_that_a_fork_cannot_redirect_is_refused(stream: StreamSpec) -> None:
    error = refusal(replace(stream, sink=SinkSpec()))
    assert error.observed == "the stream's sink is of the kind script, which a fork cannot redirect"


def test_a_fault_on_a_topic_is_refused_for_a_folder(stream: StreamSpec) -> None:
    assert "not a topic that can be copied" in refusal(stream, Feed.COPY).observed
