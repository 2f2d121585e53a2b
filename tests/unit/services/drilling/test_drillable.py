"""A drill that cannot come to a verdict is refused with the reason, and nothing is made."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import environments
from streamwarden.adapters.jvm.environments import own
from streamwarden.drills.records.sections import OracleKind
from streamwarden.errors import ConfigError, DrillAborted, VerificationError
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.drillable import require_audit, require_verdict
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import SinkSpec, StreamSpec, TriggerSpec


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


def refusal(stream: StreamSpec, feed: Feed = Feed.ORIGIN, oracle: OracleKind = OracleKind.AUTO) -> DrillAborted:
    data = Path(stream.checkpoint).parent
    forks = DrillForks(DrillArchive(data), lambda _: stream)

    def check() -> None:
        forks.declared(stream.name, feed)
        forks.oracles(stream.name, feed, oracle)

    with pytest.raises(DrillAborted) as error:
        check()
    assert not data.exists()
    assert error.value.next_step
    return error.value


def test_a_stream_with_an_oracle_and_a_build_can_be_drilled(stream: StreamSpec) -> None:
    forks = DrillForks(DrillArchive(Path(stream.checkpoint).parent), lambda _: stream)
    assert forks.declared(stream.name, Feed.ORIGIN).name == "flights"


JOB, TWIN, AUTO = OracleKind.JOB, OracleKind.TWIN, OracleKind.AUTO


@pytest.mark.parametrize(
    ("asked", "has_oracle", "found"),
    [
        (AUTO, True, (JOB, TWIN)),
        (AUTO, False, (TWIN,)),
        (JOB, True, (JOB,)),
        (TWIN, True, (TWIN,)),
        (TWIN, False, (TWIN,)),
    ],
)
def test_the_oracles_of_a_drill(
    stream: StreamSpec, asked: OracleKind, has_oracle: bool, found: tuple[OracleKind, ...]
) -> None:
    if not has_oracle:
        (Path(stream.job).parent / "oracles/job.py").unlink()
    assert require_verdict(stream, Feed.ORIGIN, asked) == found


def test_a_stream_without_an_oracle_is_refused_if_the_drill_asks_for_its_oracle(stream: StreamSpec) -> None:
    oracle = Path(stream.job).parent / "oracles/job.py"
    oracle.unlink()
    error = refusal(stream, oracle=JOB)
    assert error.observed == "the job has no oracle"
    assert error.where == str(oracle)


REAL_TIME = TriggerSpec(processing_time=None, real_time=60.0)


@pytest.mark.parametrize(
    ("feed", "trigger", "why"),
    [(Feed.COPY, TriggerSpec(), "the fault changes the topic"), (Feed.ORIGIN, REAL_TIME, "in real-time mode")],
)
def test_where_no_twin_can_be_the_jobs_own_oracle_judges_alone(
    stream: StreamSpec, feed: Feed, trigger: TriggerSpec, why: str
) -> None:
    stream = replace(stream, trigger=trigger)
    assert require_verdict(stream, feed, AUTO) == (JOB,)
    with pytest.raises(VerificationError, match=why) as error:
        require_verdict(stream, feed, TWIN)
    assert "oracle" in error.value.next_step
    (Path(stream.job).parent / "oracles/job.py").unlink()
    with pytest.raises(VerificationError, match=f"{why}.*and the job has no oracle"):
        require_verdict(stream, feed, AUTO)


@pytest.mark.parametrize("text", ["raise ImportError('pandas')", "def expcted(): ...", "def expected(:"])
def test_an_oracle_that_cannot_be_used_is_refused(stream: StreamSpec, text: str) -> None:
    (Path(stream.job).parent / "oracles/job.py").write_text(text)
    assert "the oracle" in refusal(stream).observed


def test_a_script_is_judged_by_the_twin_whatever_its_file_declares(stream: StreamSpec) -> None:
    Path(stream.job).write_text("df.writeStream.start()\n")
    assert require_verdict(stream, Feed.ORIGIN, AUTO) == require_verdict(stream, Feed.ORIGIN, TWIN) == (TWIN,)
    assert "whose queries no oracle of a job judges" in refusal(stream, oracle=JOB).observed
    forks = DrillForks(DrillArchive(Path(stream.checkpoint).parent), lambda _: stream)
    assert forks.declared(stream.name, Feed.ORIGIN).sink == SinkSpec(), "the script has its own"


@pytest.mark.parametrize(
    ("text", "why", "next_step"),
    [
        (
            'spark.readStream.format("rate").load()',
            "rate, which makes rows for as long as",
            "its fork has a last batch",
        ),
        ('spark.readStream.format("Rate-Micro-Batch").load()', "which makes rows for as long as", "read files"),
        ('spark.readStream.load(format="socket")', "socket, which keeps no row", "write to a topic"),
        ('spark.readStream.format("kinesis").load()', "kinesis, which is not known to give the same", "copy its rows"),
        ('df.writeStream.trigger(realTime="5 seconds").start()', "in real-time mode", "an oracle"),
    ],
)
def test_a_script_whose_batches_cannot_be_executed_again_is_refused_by_its_text(
    stream: StreamSpec, text: str, why: str, next_step: str
) -> None:
    Path(stream.job).write_text(f"{text}\n")
    error = refusal(stream)
    assert why in error.observed
    assert stream.job in str(error.where)
    assert next_step in str(error.next_step)


def test_a_script_that_its_file_declares_in_real_time_mode_is_refused(stream: StreamSpec) -> None:
    Path(stream.job).write_text("df.writeStream.start()\n")
    stream = replace(stream, trigger=REAL_TIME)
    assert "in real-time mode" in refusal(stream).observed
    with pytest.raises(VerificationError, match="in real-time mode"):
        require_verdict(stream, Feed.ORIGIN, AUTO)


def test_a_script_whose_text_does_not_name_its_source_is_left_to_its_fork(stream: StreamSpec) -> None:
    Path(stream.job).write_text("spark.readStream.format(sys.argv[1]).load().writeStream.start()\n")
    assert require_verdict(stream, Feed.ORIGIN, AUTO) == (TWIN,)
    forks = DrillForks(DrillArchive(Path(stream.checkpoint).parent), lambda _: stream)
    assert forks.declared(stream.name, Feed.ORIGIN).name == "flights"


def test_a_script_without_an_output_is_refused(stream: StreamSpec) -> None:
    Path(stream.job).write_text("df.writeStream.format('console').start()\n")
    assert "write to console, which keeps no output" in refusal(stream).observed


def test_a_job_that_is_gone_is_refused(stream: StreamSpec) -> None:
    Path(stream.job).unlink()
    assert "the job cannot be read" in refusal(stream).observed


def test_a_sink_that_a_fork_cannot_redirect_is_refused(stream: StreamSpec) -> None:
    error = refusal(replace(stream, sink=SinkSpec()))
    assert error.observed == "the stream's sink is of the kind script, which a fork cannot redirect"


def test_a_fault_on_a_topic_is_refused_for_a_folder(stream: StreamSpec) -> None:
    assert "not a topic that can be copied" in refusal(stream, Feed.COPY).observed


@pytest.mark.parametrize(("version", "refused"), [("3.5.9", True), ("4.0.5", False)])
def test_a_live_stream_whose_spark_reads_no_state_is_not_hit(
    stream: StreamSpec, monkeypatch: pytest.MonkeyPatch, version: str, refused: bool
) -> None:
    monkeypatch.setattr(environments, "named", lambda python: replace(own(), python=python, version=version))
    of_a_team = replace(stream, spark=replace(stream.spark, python="/env/bin/python"))
    with pytest.raises(ConfigError, match=version) if refused else nullcontext():
        require_audit(of_a_team)
