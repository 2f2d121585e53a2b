"""What the fork of a script does with each query. With real Spark: tests/spark/proofs/test_script_fork.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.errors import CheckpointError, JobError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.scripts import ForkQueries, ForkQuery, OutputKind, output_kind, query_name
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery
from streamwarden.services.forks.forks import fork
from streamwarden.services.forks.scripts import files_read_again, require_repeatable, unplanned, unread
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import ScriptFork, StreamSpec, TriggerSpec

DECLARED = {"by_page": "/data/cp/pages", "by_user": None}
SPEC = StreamSpec(name="clicks__fork", job="clicks.py", checkpoint="/fork/checkpoint", data="/data")
SCRIPT = ScriptFork(output="/fork/output", queries=DECLARED)


@pytest.fixture
def queries() -> ForkQueries:
    return ForkQueries(SPEC, SCRIPT)


def start(queries: ForkQueries, *inputs: NamedInput, append: bool = True, **named: str) -> ForkQuery:
    query = NamedQuery(**{"format": "parquet", **named})  # type: ignore[arg-type]
    require_repeatable(SPEC, [query.trigger], inputs)
    return queries.redirected(query, inputs, options={}, partitioned=False, append=append)


@pytest.mark.parametrize(
    ("given", "checkpoint", "name"),
    [
        ("By Hour", "/data/cp/pages", "by_hour"),
        (None, "/data/cp/pages", "by_page"),
        (None, "file:///data/cp/pages/", "by_page"),
        (None, "/elsewhere/by_user", "by_user"),
        (None, "/elsewhere", "query_3"),
        (None, None, "query_3"),
    ],
)
def test_a_query_has_its_own_name_or_the_declared_one_or_its_order(
    given: str | None, checkpoint: str | None, name: str
) -> None:
    assert query_name(DECLARED, given, checkpoint, 3) == name


def test_each_query_has_its_own_folders(queries: ForkQueries) -> None:
    first = start(queries, path="out/a", checkpoint="cp/a")
    second = start(queries, format="kafka", topic="alerts", checkpoint="cp/b")
    assert (first.name, first.checkpoint, first.output) == (
        "query_1",
        "/fork/checkpoint/query_1",
        "/fork/output/query_1",
    )
    assert (second.name, second.kind, second.instead_of) == ("query_2", OutputKind.CAPTURE, "the topic alerts")
    assert first.instead_of == "/data/out/a"


def test_a_query_that_starts_again_goes_on_and_another_one_does_not(queries: ForkQueries) -> None:
    assert [start(queries, checkpoint=place).name for place in ("cp/a", "cp/b", "cp/a")] == [
        "query_1",
        "query_2",
        "query_1",
    ]
    start(queries, name="hourly", checkpoint="cp/c")
    with pytest.raises(JobError, match="two queries with the name hourly"):
        start(queries, name="Hourly", checkpoint="cp/d")


def test_a_relative_path_in_the_working_folder_of_a_fork_means_the_streams_own_place() -> None:
    """Its files are read through the working folder, whose path is in the fork's log."""
    queries = ForkQueries(replace(SPEC, data="/run/work"), replace(SCRIPT, data="/data"))
    query = start(queries, NamedInput(format="json", path="in"), path="out/a", checkpoint="cp/pages")
    assert (query.name, query.instead_of, query.inputs) == ("by_page", "/data/out/a", ("/data/in",))
    assert [source.path for source in query.sources] == ["/run/work/in"]
    with pytest.raises(JobError, match="reads /data/out/a/x, which its query by_page writes"):
        start(queries, NamedInput(format="json", path="/data/out/a/x"), path="out/b", checkpoint="cp/b")


@pytest.mark.parametrize("format", ["json", "CSV", "parquet", "binaryFile", "kafka", None])
def test_a_query_of_files_or_of_a_topic_starts(queries: ForkQueries, format: str | None) -> None:
    assert start(queries, NamedInput(format=format)).name == "query_1"


@pytest.mark.parametrize("format", ["rate", "Rate", "rate-micro-batch", "socket", "kinesis", "LocalRelation"])
def test_a_query_of_a_source_that_cannot_be_read_again_is_refused_at_its_start(
    queries: ForkQueries, format: str
) -> None:
    with pytest.raises(JobError, match=f"reads a source of the format {format}, which") as error:
        start(queries, NamedInput(format="json"), NamedInput(format=format))
    assert (error.value.where, bool(error.value.expected), bool(error.value.next_step)) == ("clicks.py", True, True)


def test_a_query_in_real_time_mode_is_refused_at_its_start() -> None:
    query = NamedQuery(format="kafka", trigger=TriggerSpec(processing_time=None, real_time=5.0))
    with pytest.raises(JobError, match="in real-time mode"):
        require_repeatable(SPEC, [query.trigger], [])


@pytest.mark.parametrize("writer_first", [True, False])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"path": "out/a"}, NamedInput(path="/data/out/a")),
        ({"path": "out/a"}, NamedInput(path="/data/out/a/*/part")),
        ({"format": "kafka", "topic": "mid"}, NamedInput(topic="in, mid")),
    ],
)
def test_query_that_reads_the_output_of_another_is_refused(
    queries: ForkQueries, written: dict[str, str], read: NamedInput, writer_first: bool
) -> None:
    """The fork redirects what is written and not what is read."""
    starts = [((), {"name": "writer", **written}), ((read,), {"name": "reader", "path": "out/b"})]
    (inputs, named), (other_inputs, other) = starts if writer_first else reversed(starts)
    start(queries, *inputs, **named)
    with pytest.raises(JobError, match=r"the query reader of the script reads .*, which its query writer writes"):
        start(queries, *other_inputs, **other)


@pytest.mark.parametrize(
    ("format", "options", "kind"),
    [
        ("parquet", {"path": "x"}, OutputKind.FILES),
        ("JSON", {}, OutputKind.FILES),
        ("json", {"compression": "zstd"}, OutputKind.CAPTURE),
        ("parquet", {"table": "t"}, OutputKind.CAPTURE),
        ("csv", {}, OutputKind.CAPTURE),
        ("delta", {}, OutputKind.CAPTURE),
        ("foreachBatch", {}, OutputKind.CAPTURE),
        ("foreach", {}, OutputKind.CAPTURE),
        ("kafka", {}, OutputKind.CAPTURE),
        ("console", {}, OutputKind.NOTHING),
        ("memory", {}, OutputKind.NOTHING),
        ("noop", {}, OutputKind.NOTHING),
    ],
)
def test_what_is_kept_of_an_output(format: str, options: dict[str, str | None], kind: OutputKind) -> None:
    assert output_kind(format, options) is kind


def test_files_that_are_not_read_back_as_they_are_written_are_captured() -> None:
    """The values of a partitioned output are in the names of its folders."""
    assert output_kind("parquet", {}, partitioned=True) is OutputKind.CAPTURE
    assert output_kind("parquet", {}, append=False) is OutputKind.CAPTURE


@pytest.fixture
def script(tmp_path: Path) -> StreamSpec:
    job = tmp_path / "clicks.py"
    job.write_text('spark.readStream.json("in").writeStream.format("parquet").start("out")\n')
    for name in ("a", "b", "_c"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("{}\n")
    return StreamSpec(
        name="clicks", job=str(job), checkpoint=str(tmp_path / "cp"), queries=DECLARED, data=str(tmp_path)
    )


def test_the_fork_of_a_script_has_its_places_and_knows_its_input(script: StreamSpec, tmp_path: Path) -> None:
    made = fork(script, into=tmp_path / "fork", rewind="all")
    assert (made.inputs, made.unseen, made.batch) == (2, 2, None)
    assert made.spec.checkpoint == str(tmp_path / "fork/checkpoint")
    assert made.spec.fork == ScriptFork(output=str(tmp_path / "fork/output"), queries=DECLARED)
    assert (made.spec.queries, made.spec.trigger.available_now) == ({}, True)
    assert fork_queries(made.spec) == ()
    assert not (tmp_path / "fork").exists()


def test_what_the_file_declares_is_the_scripts_own_affair(script: StreamSpec) -> None:
    declared = replace(script, source=FilesSource(path="/in"), sink=ParquetSink(path="/out"), quarantine="/bad")
    forked = forked_spec(declared, Places.under("/fork"))
    assert (forked.source.kind, forked.sink.kind, forked.quarantine) == ("script", "script", None)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {"rewind": 3}, "begins with empty checkpoints, and `rewind` is 3"),
        ("", {"at": "s3a://b/f"}, "cannot be at s3a://b/f"),
        ("", {"feed": Feed.COPY}, "which no drill changes"),
        ("df.writeStream.format('noop').start()\n", {}, "write to noop, which keeps no output"),
        ("spark.readStream.json('out').writeStream.format('parquet').start('o')\n", {}, "another one writes"),
    ],
)
def test_a_fork_that_a_script_cannot_have_is_refused(
    script: StreamSpec, tmp_path: Path, text: str, options: dict[str, object], said: str
) -> None:
    job = Path(script.job)
    job.write_text(text if "noop" in text else job.read_text() + text)
    with pytest.raises(CheckpointError, match=said):
        fork(script, into=tmp_path / "fork", **{"rewind": "all", **options})  # type: ignore[arg-type]
    assert not (tmp_path / "fork").exists()


def test_a_file_that_no_batch_has_planned_is_unread(queries: ForkQueries, tmp_path: Path) -> None:
    spec = StreamSpec(name="clicks__fork", job="clicks.py", checkpoint=str(tmp_path / "cp"), data="/data")
    query = ForkQueries(spec, SCRIPT).redirected(
        NamedQuery(format="parquet"),
        [
            NamedInput(path="in a"),
            NamedInput(path="/data/filtered", options={"maxFileAge": "1h"}),
            NamedInput(topic="t"),
        ],
        options={},
        partitioned=False,
        append=True,
    )
    assert query.inputs == ("/data/in a", "/data/filtered", "topic t")
    assert query.whole == (NamedInput(path="/data/in a"),)
    for name, text in {
        "sources/0/0": 'v1\n{"path":"file:///data/in%20a/1.json","timestamp":1,"batchId":0}\n'
        '{"path":"file:///data/in%20a/c%5B1%5D.json","timestamp":1,"batchId":0}',
        "sources/1/0": 'v1\n{"t":{"0":0}}',  # where the topic began
        "offsets/0": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"logOffset":0}\n{"t":{"0":5}}',
    }.items():
        file = Path(query.checkpoint, name)
        file.parent.mkdir(parents=True)
        file.write_text(text)
    there = {"/data/in a": ["1.json", "day=2/2.json"], "/data/filtered": ["3.json"]}
    assert unread(query, there) == ["/data/in a/day=2/2.json"]
    assert unread(query, {}) == []
    (again,) = files_read_again(query, [0])
    assert "batch 0 read 1 of its 2 files more than once: Spark takes the name 'c[1].json' for a pattern" in again
    assert files_read_again(query, [1]) == []
    with pytest.raises(CheckpointError, match="how much of /data/in a the query query_1 has yet to read is not known"):
        unplanned(query)
