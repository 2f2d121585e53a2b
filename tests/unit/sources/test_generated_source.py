"""A source without an end: its fork ends with a last batch, which survives a restart and the steps of a drill."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.drills.faults import FAULTS
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import ConfigError, DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.crash_matrix.matrix import record
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.forks.forks import fork
from streamwarden.services.forks.spec import BATCHES
from streamwarden.services.forks.spec_storage import StoredSpecs
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.base import FinishedRun, Source
from streamwarden.sources.rate import RateSource
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.simulated.drill_specs import fault_of

BEGAN = 1_700_000_000_000


def plan(checkpoint: str, *batches: int, committed: bool = True) -> None:
    """Batches in the logs of a checkpoint, of ten seconds each."""
    for batch in batches:
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": BEGAN + 10_000 * batch, "conf": {}})
        write(checkpoint, f"offsets/{batch}", f"v1\n{head}\n{10 * batch}")
        if committed:
            write(checkpoint, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def write(checkpoint: str, name: str, text: str) -> None:
    file = Path(checkpoint, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def stream(tmp_path: Path) -> StreamSpec:
    """A stream that has committed batches 0 to 5."""
    checkpoint, output = tmp_path / "origin/checkpoint", tmp_path / "origin/output"
    write(str(checkpoint), "sources/0/0", f"v1\n{BEGAN}")
    write(str(checkpoint), "metadata", '{"id":"7c5e0c5e-0000-4000-8000-000000000000"}')
    plan(str(checkpoint), *range(6))
    for batch in range(6):
        write(str(output), f"_spark_metadata/{batch}", "v1")
    return StreamSpec(
        name="values",
        job="/job.py",
        checkpoint=str(checkpoint),
        source=RateSource(options={"rowsPerSecond": "9"}),
        sink=ParquetSink(path=str(output)),
        trigger=TriggerSpec(processing_time=10.0),
    )


def unplanned(forked: StreamSpec) -> int:
    assert isinstance(forked.source, Source)
    return forked.source.unplanned(forked)


@pytest.mark.parametrize(("batches", "count"), [(None, BATCHES), (7, 7), (1, 1)])
def test_a_fork_from_nothing_ends_after_so_many_batches(
    stream: StreamSpec, tmp_path: Path, batches: int | None, count: int
) -> None:
    made = fork(stream, into=tmp_path / "fork", rewind="all", batches=batches)
    assert made.spec.last_batch == count - 1
    assert (made.what, made.inputs, made.unseen, made.batches_left) == ("batch", count, count, count)
    assert not (tmp_path / "fork").exists(), "it begins with its own beginning, not with the stream's"


def test_a_rewound_fork_has_the_streams_beginning_and_ends_so_many_batches_later(
    stream: StreamSpec, tmp_path: Path
) -> None:
    made = fork(stream, into=tmp_path / "fork", rewind=2, batches=7)
    assert (made.batch, made.spec.last_batch, made.unseen) == (3, 10, 7)
    assert (tmp_path / "fork/checkpoint/sources/0/0").read_text() == f"v1\n{BEGAN}"
    assert not (tmp_path / "fork/checkpoint/offsets/4").exists()


def test_its_batches_are_as_long_as_the_streams_and_no_end_of_the_input_is_awaited(
    stream: StreamSpec, tmp_path: Path
) -> None:
    """Read as fast as it can, as other forks are, it would have batches of one second."""
    spec = fork(stream, into=tmp_path / "fork", rewind="all").spec
    assert spec.trigger == TriggerSpec(processing_time=10.0)
    assert spec.ends
    assert not stream.ends


def test_only_planned_batches_are_subtracted_so_a_restart_reaches_the_same_end(
    stream: StreamSpec, tmp_path: Path
) -> None:
    spec = fork(stream, into=tmp_path / "fork", rewind=2, batches=4).spec
    assert unplanned(spec) == 4
    plan(spec.checkpoint, 4, 5)
    plan(spec.checkpoint, 6, committed=False)  # where it is killed
    assert (unplanned(spec), spec.last_batch) == (1, 7)
    plan(spec.checkpoint, 6, 7)
    assert unplanned(spec) == 0


def test_a_run_that_ended_before_its_last_batch_has_not_read_its_input(stream: StreamSpec, tmp_path: Path) -> None:
    """Its own offsets are all that an oracle knows of its input, and they say nothing of the batches after them."""
    spec = fork(stream, into=tmp_path / "fork", rewind=2, batches=4).spec
    plan(spec.checkpoint, 4, 5, 6)
    assert problems(spec, committed=6) == ("batches never run: the newest committed batch is 6, and the last one is 7",)
    plan(spec.checkpoint, 7)
    assert problems(spec, committed=7) == ()
    assert problems(stream, committed=5) == (), "a stream has no end"


def problems(spec: StreamSpec, committed: int) -> tuple[str, ...]:
    assert isinstance(spec.source, Source)
    return spec.source.read_back(spec, FinishedRun(checkpoint=open_path(spec.checkpoint), committed=committed)).problems


@pytest.mark.parametrize(("batch", "last"), [(None, False), (0, False), (6, False), (7, True), (8, True)])
def test_a_query_ends_with_its_last_batch(stream: StreamSpec, batch: int | None, last: bool) -> None:
    assert replace(stream, last_batch=7).is_last(batch) is last
    assert not stream.is_last(batch)


def made_by_a_drill(stream: StreamSpec, data: Path) -> ForkView:
    return DrillForks(DrillArchive(data), lambda _: stream).make("kill-1", "values", ForkSpec(batches=9), Feed.ORIGIN)


def test_the_end_is_in_the_spec_that_the_steps_of_a_drill_pass_on(stream: StreamSpec, tmp_path: Path) -> None:
    view = made_by_a_drill(stream, tmp_path / "data")
    assert (view.spec.last_batch, view.unseen, view.batches_left, view.work) == (8, 9, 9, "9 input batches")
    specs = StoredSpecs(lambda _: stream)
    assert specs.read(json.loads(json.dumps(specs.write(view.spec)))) == view.spec


def test_another_pace_or_another_end_is_another_input(stream: StreamSpec, tmp_path: Path) -> None:
    faster = replace(stream, source=RateSource(options={"rowsPerSecond": "10"}))
    digests = {
        fork(each, into=tmp_path / str(number), rewind="all", batches=batches).input_digest
        for number, (each, batches) in enumerate([(stream, 7), (stream, 7), (stream, 8), (faster, 7)])
    }
    assert len(digests) == 3


OF_INPUT = [kind for kind in FAULTS if kind.startswith(("input_", "partitions_", "retention_", "topic_"))]


@pytest.mark.parametrize("kind", OF_INPUT)
def test_input_fault_is_refused_with_an_alternative(kind: str, stream: StreamSpec) -> None:
    with pytest.raises(DrillAborted, match=f"{kind} is not applicable.*kind rate") as refused:
        fault_of(kind).require(stream.name, stream)
    assert refused.value.expected.startswith("source.kind ")
    assert refused.value.where
    assert refused.value.next_step


def test_a_crash_matrix_is_refused_before_anything_is_made(stream: StreamSpec, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads a source of the kind rate"):
        record(stream, into=tmp_path / "matrix")
    assert not (tmp_path / "matrix").exists()
