"""What a fork is made of, with checkpoints that real Sparks wrote.

That Spark runs it rightly is shown by tests/spark/proofs/test_fork_run.py.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.layout import LogFile
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sources import source_entries
from streamwarden.checkpoint.formats.uris import of_hadoop, to_path
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Write, source_log_step
from streamwarden.services.forks.copying import rewritten
from streamwarden.services.forks.forks import fork
from streamwarden.services.forks.spec import fork_name, forked_spec
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.checkpoints.recorded import replace as replace_file


@pytest.fixture
def origin(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """13 batches with a file each, one without; four more files have arrived. Both logs were compacted at 9."""
    root = tmp_path / "origin with space"
    unpack("spark-4.3.0-changelog", root)
    return stream_of(root, files=17)


def manifest_of(made: Fork) -> dict[str, list[str]]:
    assert made.spec.sink.path is not None
    folder = Path(made.spec.sink.path) / "_spark_metadata"
    return {
        path.name: [to_path(json.loads(line)["path"]) for line in path.read_text().splitlines()[1:]]
        for path in folder.iterdir()
    }


def test_a_compact_log_of_any_size_is_copied(tmp_path: Path) -> None:
    """More than any other log file may have: a stream that reads small files names a million of them."""
    lines = [f'{{"path":"file:///in/{at:0900000}.json","timestamp":1,"batchId":{at}}}' for at in range(20)]
    (tmp_path / "9.compact").write_text("\n".join(["v1", *lines]))

    def step(name: str, log: LogFile, places: Places) -> Write:
        return source_log_step(name, log, "/in", places)

    copied = rewritten(open_path(tmp_path), "9.compact", Places.under("/fork"), step, "a whole log")
    assert copied.text.count("/fork/input/") == 20


def test_a_fork_at_the_newest_batch_is_a_whole_checkpoint(origin: StreamSpec, tmp_path: Path) -> None:
    made = fork(origin, into=tmp_path / "fork", rewind=0)
    report = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path))
    assert report.findings == ()
    assert report.position.committed == made.batch == 13
    assert (made.inputs, made.unseen, made.batches_left) == (17, 4, 4)
    assert report.position.query_id == made.query_id
    assert made.query_id != log_position(open_path(origin.checkpoint)).query_id


@pytest.mark.parametrize("rewind", [1, 3, 4, 5, 9, 12, 13])
def test_a_rewound_fork_has_nothing_of_later_batches(rewind: int, origin: StreamSpec, tmp_path: Path) -> None:
    """Before the compaction of batch 9 its compact files are not carried: they hold what came later too."""
    made = fork(origin, into=tmp_path / "fork", rewind=rewind)
    batch = 13 - rewind
    assert made.batch == batch
    report = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path))
    assert report.findings == ()
    assert (report.position.planned, report.position.committed) == (batch, batch)
    assert report.sink_newest == batch
    assert max(store.replay.newest for store in report.stores) == batch + 1
    assert max(source_entries(open_path(made.spec.checkpoint))) == min(batch, 12)
    assert made.unseen == 17 - min(batch + 1, 13)


def test_manifest_and_source_log_name_the_forks_own_files(origin: StreamSpec, tmp_path: Path) -> None:
    made = fork(origin, into=tmp_path / "fork", rewind=1)
    named = [path for paths in manifest_of(made).values() for path in paths]
    assert named
    assert all(path.startswith(f"{tmp_path}/fork/output/part-") and Path(path).is_file() for path in named)
    entries = [
        to_path(file.path) for files in source_entries(open_path(made.spec.checkpoint)).values() for file in files
    ]
    assert sorted(entries) == [f"{tmp_path}/fork/input/in {index:03d}.json" for index in range(13)]
    on_disk = {str(path) for path in (tmp_path / "fork/output").glob("*.parquet")}
    assert on_disk == set(named), "data files that no entry names are orphan files of cut batches and stay behind"


@pytest.mark.parametrize("name", ["spark-4.3.0-processor", "spark-4.3.0-join-columns"])
@pytest.mark.parametrize("rewind", [0, 1])
def test_an_operator_names_the_forks_own_schema(name: str, rewind: int, unpack: Unpack, tmp_path: Path) -> None:
    """Spark writes the schema's files as absolute paths: taken over as they are, they would be the origin's."""
    root = tmp_path / "the 100% origin"
    unpack(name, root)
    origin = stream_of(root, files=0)
    if "join" in name:
        origin = replace(origin, source=replace(origin.source, path=str(root), parts=("input", "other")))
    made = fork(origin, into=tmp_path / "the fork", rewind=rewind)
    metadata = Path(made.spec.checkpoint) / "state/0/_metadata/v2"
    batches = sorted(int(path.name) for path in metadata.iterdir())
    assert batches, "and no checksums of what was there before"
    assert batches[-1] <= made.batch  # type: ignore[operator]
    named = [
        of_hadoop(path)
        for batch in batches
        for store in json.loads((metadata / str(batch)).read_text().split("\n")[1])["stateStoreInfo"]
        for path in store["stateSchemaFilePaths"]
    ]
    assert named
    assert all(Path(path).is_relative_to(made.spec.checkpoint) and Path(path).is_file() for path in named)
    assert read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings == ()


def test_an_operator_that_names_a_schema_elsewhere_is_refused(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack("spark-4.3.0-processor", tmp_path / "origin")
    metadata = checkpoint / "state/0/_metadata/v2/0"
    replace_file(metadata, metadata.read_text().replace("/checkpoint/state/", "/elsewhere/state/").encode())
    with pytest.raises(CheckpointError, match=r"the schema of its store default: it names .*not below"):
        fork(stream_of(tmp_path / "origin", files=0), into=tmp_path / "fork", rewind=0)


def test_a_fork_of_two_sources_ends_with_the_longer_one(origin: StreamSpec, tmp_path: Path) -> None:
    source = Path(str(origin.source.path))
    for part, count in (("left", 5), ("right", 2)):
        (source / part).mkdir()
        for number in range(count):
            (source / part / f"{part}-{number}.json").write_text("{}")
    for path in source.glob("*.json"):
        path.unlink()
    both = replace(origin, source=replace(origin.source, parts=("left", "right"), max_files_per_trigger=2))
    made = fork(both, into=tmp_path / "fork", rewind="all")
    assert (made.inputs, made.unseen, made.longest_queue, made.batches_left) == (7, 7, 5, 3)
    assert [len(list(Path(folder).iterdir())) for folder in made.spec.source.folders] == [5, 2]


def test_files_are_linked_and_scratch_stays_behind(origin: StreamSpec, tmp_path: Path) -> None:
    checkpoint = Path(origin.checkpoint)
    (checkpoint / "state/0/0/.15.changelog.tmp").write_text("half")
    (checkpoint / "state/0/0/16.changelog").write_text("of a batch that runs")
    fork(origin, into=tmp_path / "fork", rewind=0)
    copied = [path for path in (tmp_path / "fork").rglob("*") if path.is_file()]
    assert not [path for path in copied if path.name.startswith(".") or path.suffix in (".crc", ".tmp")]
    assert not (tmp_path / "fork/checkpoint/state/0/0/16.changelog").exists()
    changelog = "checkpoint/state/0/0/14.changelog"
    assert (tmp_path / "fork" / changelog).samefile(Path(origin.checkpoint).parent / changelog)
    assert (tmp_path / "fork/input/in 016.json").samefile(f"{origin.source.path}/in 016.json")


def test_a_batch_that_is_running_is_not_part_of_the_fork(origin: StreamSpec, tmp_path: Path) -> None:
    (Path(origin.checkpoint) / "commits/13").unlink()
    made = fork(origin, into=tmp_path / "fork", rewind=0)
    assert made.batch == 12
    position = log_position(open_path(made.spec.checkpoint))
    assert (position.planned, position.committed, position.gap) == (12, 12, 0)
    assert max(int(name.removesuffix(".compact")) for name in manifest_of(made)) == 12


@pytest.mark.parametrize("rewind", ["all", None])
def test_a_fork_from_the_beginning_has_all_of_the_input_and_nothing_else(
    rewind: str | None, origin: StreamSpec, tmp_path: Path
) -> None:
    made = fork(origin, into=tmp_path / "fork", rewind=rewind)  # type: ignore[arg-type]
    assert [path.name for path in (tmp_path / "fork").iterdir()] == ["input"]
    assert (made.batch, made.query_id, made.inputs, made.unseen) == (None, None, 17, 17)


def test_the_forked_spec_ends_by_itself_and_touches_nothing_of_the_original(origin: StreamSpec, tmp_path: Path) -> None:
    options = {"cleanSource": "archive", "sourceArchiveDir": "/archive", "multiLine": "true", "FileNameOnly": "false"}
    given = replace(origin, source=replace(origin.source, options=options), quarantine="/quarantine", group="small")
    spec = fork(given, into=tmp_path / "fork", rewind="all").spec
    assert spec.name == "minutes__fork"
    assert (spec.trigger.available_now, spec.trigger.processing_time) == (True, None)
    assert spec.source.options == {"multiLine": "true", "fileNameOnly": "true"}
    places = (spec.checkpoint, spec.sink.path, spec.source.path, spec.quarantine)
    assert all(str(place).startswith(f"{tmp_path}/fork/") for place in places)
    assert spec.job == origin.job
    assert spec.group is None, "what breaks the fork must not break a neighbour of its origin"


def test_too_far_back_says_how_far_is_possible(origin: StreamSpec, tmp_path: Path) -> None:
    for batch in range(5):
        (Path(origin.checkpoint) / f"offsets/{batch}").unlink()
    with pytest.raises(CheckpointError) as caught:
        fork(origin, into=tmp_path / "fork", rewind=9)
    assert "offsets/4 is gone" in caught.value.observed or "offsets/3 is gone" in caught.value.observed
    assert "rewind by 0-7 batches" in caught.value.next_step
    assert not (tmp_path / "fork").exists() or not list((tmp_path / "fork").iterdir())


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ("checkpoint/commits/10", "commits/10 is gone"),
        ("checkpoint/sources/0/3", "sources/0/3 is gone"),
        ("output/_spark_metadata/3", "no entry for batch 3"),
        ("checkpoint/state/0/1/5.changelog", "state/0/1 lacks version 5"),
    ],
)
def test_what_is_lacking_is_named(gone: str, reason: str, origin: StreamSpec, tmp_path: Path) -> None:
    root = Path(origin.checkpoint).parent
    (root / gone).unlink()
    for snapshot in root.glob("checkpoint/state/0/1/*.zip"):
        snapshot.unlink()
    with pytest.raises(CheckpointError, match=reason):
        fork(origin, into=tmp_path / "fork", rewind=3 if "commits" in gone else 6)


def test_before_the_first_commit_there_is_nothing_to_fork(tmp_path: Path) -> None:
    spec = stream_of(tmp_path, files=2)
    with pytest.raises(CheckpointError, match="no batch is committed"):
        fork(spec, into=tmp_path / "fork", rewind=0)
    assert fork(spec, into=tmp_path / "fork", rewind="all").unseen == 2


def test_a_folder_with_something_in_it_is_refused_and_left_alone(origin: StreamSpec, tmp_path: Path) -> None:
    (tmp_path / "fork").mkdir()
    (tmp_path / "fork/precious").write_text("mine")
    with pytest.raises(CheckpointError, match="not empty"):
        fork(origin, into=tmp_path / "fork")
    assert (tmp_path / "fork/precious").read_text() == "mine"


def test_files_of_one_name_in_two_folders_are_refused(origin: StreamSpec, tmp_path: Path) -> None:
    twin = Path(str(origin.source.path)) / "day=2/in 016.json"
    twin.parent.mkdir()
    twin.write_text("{}")
    with pytest.raises(CheckpointError, match=r"in 016\.json"):
        fork(origin, into=tmp_path / "fork")


def test_hidden_input_is_not_complete_and_stays_behind(origin: StreamSpec, tmp_path: Path) -> None:
    (Path(str(origin.source.path)) / ".in 017.json").write_text("{")
    (Path(str(origin.source.path)) / "_SUCCESS").write_text("")
    assert fork(origin, into=tmp_path / "fork").inputs == 17


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": SourceSpec()}, "drill a stream with such a source"),
        ({"sink": SinkSpec()}, "drill a stream with such a sink"),
        ({"checkpoint": "s3://bucket/checkpoint"}, "on s3a://"),
        ({"source": FilesSource(path="/in/*/x")}, "name one folder each"),
    ],
)
def test_streams_that_cannot_be_redirected_are_refused(
    change: dict[str, object], words: str, origin: StreamSpec, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError) as caught:
        fork(replace(origin, **change), into=tmp_path / "fork")  # type: ignore[arg-type]
    assert words in caught.value.next_step


def test_a_purge_that_races_the_copy_starts_it_again(
    origin: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark deletes an old state version between the listing and the link."""
    link, purged = os.link, Path(origin.checkpoint) / "state/0/0/1.changelog"

    def purge_then_link(source: str, target: str) -> None:
        purged.unlink(missing_ok=True)
        link(source, target)

    monkeypatch.setattr(os, "link", purge_then_link)
    made = fork(origin, into=tmp_path / "fork", rewind=0)
    assert read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings == ()
    assert not (tmp_path / "fork/checkpoint/state/0/0/1.changelog").exists()


def test_a_data_file_that_is_gone_for_good_is_an_error_and_leaves_nothing(origin: StreamSpec, tmp_path: Path) -> None:
    gone = sorted(Path(str(origin.sink.path)).glob("*.parquet"))[0]
    gone.unlink()
    with pytest.raises(CheckpointError, match=gone.name):
        fork(origin, into=tmp_path / "fork")
    assert list((tmp_path / "fork").iterdir()) == []


@pytest.mark.parametrize("reason", [errno.EXDEV, errno.EPERM])
def test_where_links_cannot_be_made_files_are_copied_with_their_times(
    reason: int, origin: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", refuse)
    source = Path(str(origin.source.path)) / "in 016.json"
    os.utime(source, (1_600_000_000, 1_600_000_000))
    made = fork(origin, into=tmp_path / "fork")
    copy = Path(str(made.spec.source.path)) / "in 016.json"
    assert not copy.samefile(source)
    assert copy.stat().st_mtime == 1_600_000_000
    assert read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings == ()


def test_a_manifest_that_names_files_elsewhere_is_refused(origin: StreamSpec, tmp_path: Path) -> None:
    """The output was moved without its manifest."""
    entry = Path(str(origin.sink.path)) / "_spark_metadata/12"
    entry.write_text(entry.read_text().replace("/output/part", "/elsewhere/part"))
    with pytest.raises(CheckpointError, match="elsewhere"):
        fork(origin, into=tmp_path / "fork")


def test_digest_distinguishes_inputs(origin: StreamSpec, tmp_path: Path) -> None:
    one = fork(origin, into=tmp_path / "one", rewind="all").input_digest
    assert fork(origin, into=tmp_path / "two", rewind=3).input_digest == one
    (Path(str(origin.source.path)) / "in 016.json").write_text("longer than it was")
    assert fork(origin, into=tmp_path / "three", rewind=3).input_digest != one


def test_names_of_forks_are_names_of_streams() -> None:
    assert fork_name("flights") == "flights__fork"
    long, other = "a" * 63, "a" * 62 + "b"
    assert len(fork_name(long)) == 63
    assert fork_name(long).endswith("__fork")
    assert fork_name(long) != fork_name(other)


@pytest.mark.parametrize(
    ("spark", "mode"),
    [
        (SparkSpec(master="yarn", deploy_mode=DeployMode.CLUSTER, queue="night"), DeployMode.CLUSTER),
        (SparkSpec(master="yarn", queue="night"), DeployMode.CLIENT),
        (SparkSpec(master="k8s://https://api", deploy_mode=DeployMode.CLUSTER, image="sw"), DeployMode.CLIENT),
    ],
    ids=["in the cluster", "on its own host", "a cluster where no drill finds it"],
)
def test_the_driver_of_a_fork_runs_where_a_drill_can_kill_it(
    spark: SparkSpec, mode: DeployMode, tmp_path: Path
) -> None:
    """Where the stream's own driver runs, if the manager of the cluster lets the drill find it there."""
    origin = StreamSpec(
        name="a",
        job="/p/a.py",
        checkpoint="/c",
        source=FilesSource(path="/in"),
        sink=ParquetSink(path="/out"),
        spark=spark,
    )
    forked = forked_spec(origin, Places.under(str(tmp_path)))
    assert (forked.spark.master, forked.spark.deploy_mode, forked.spark.queue) == (spark.master, mode, spark.queue)


def test_a_fork_of_a_stream_on_a_topic_reads_it_where_it_is_from_its_beginning(tmp_path: Path) -> None:
    """Wherever the origin began: what it left out then is input that the fork is judged by."""
    options = {
        "startingOffsets": "latest",
        "startingTimestamp": "7",
        "timestampFormat": "yyyy",
        "failOnDataLoss": "true",
    }
    source = KafkaSource(connection="events", topic="events", options=options)
    origin = StreamSpec(name="a", job="/p/a.py", checkpoint="/c", source=source, sink=ParquetSink(path="/out"))
    forked = forked_spec(origin, Places.under(str(tmp_path)))
    assert (forked.source.connection, forked.source.topic) == ("events", "events")
    assert forked.source.options == {"timestampFormat": "yyyy", "failOnDataLoss": "true"}
    assert forked.trigger.available_now
