"""A checkpoint that a real Spark wrote, put into a real HDFS: it is read, copied, moved and damaged as on a disk.

No Spark runs. Hadoop's own shell puts the files there, and says what is there afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of, download, open_path, output_of
from streamwarden.adapters.storage.hdfs import HdfsFiles
from streamwarden.adapters.storage.moving import bring, exists, move, remove
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.filesystem import Location, TooLarge
from streamwarden.config.loading import load_catalog
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.location import DataUrl
from streamwarden.lifecycle.savepoints.verification import Fault
from streamwarden.services.fleet.readable_places import unreadable_place
from streamwarden.services.forks.forks import clear, fork
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Condition, Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.services.scaffolding.new_stream import JOB, new_stream
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec
from support.airflow.harness import free_port
from support.checkpoints.recorded import Archives, stream_of
from support.servers.hadoop import Hdfs, write_settings
from support.servers.hdfs_streams import listing, stored

pytestmark = pytest.mark.full

NAME, FILES, LAST = "spark-4.3.0-changelog", 17, 13
ANN = Author(by="ann", reason="a wrong job")


@dataclass
class Recorded:
    hdfs: Hdfs
    local: StreamSpec
    spec: StreamSpec


@pytest.fixture(scope="module")
def recorded(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    root = tmp_path_factory.mktemp("archives")
    Archives(root).unpack(NAME, tmp_path_factory.mktemp("local") / NAME)
    local = stream_of(next(tmp_path_factory.getbasetemp().glob("local*")) / NAME, files=FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
        patch.delenv("HADOOP_USER_NAME", raising=False)
        yield Recorded(hdfs, local, stored(hdfs, local, "/a stream", tmp_path_factory.mktemp("put") / "a"))


@pytest.fixture
def folder(recorded: Recorded, request: pytest.FixtureRequest) -> Location:
    """A folder of the test's own."""
    return open_path(f"{recorded.hdfs.url}/tests/{request.node.name}")


def report(spec: StreamSpec) -> CheckpointReport:
    return read_checkpoint(checkpoint_of(spec), output=output_of(spec))


def test_the_inspector_finds_what_it_finds_on_a_disk(recorded: Recorded) -> None:
    here, there = report(recorded.local), report(recorded.spec)
    assert there.findings == here.findings == ()
    assert (there.stores, there.operators, there.sink_newest) == (here.stores, here.operators, LAST)
    assert there.path == recorded.spec.checkpoint


def test_a_url_without_a_host_is_the_same_place(recorded: Recorded) -> None:
    bare = replace(recorded.spec, checkpoint="hdfs:///a stream/checkpoint")
    assert report(bare).path == recorded.spec.checkpoint


def test_the_output_is_read_through_its_manifest_and_a_lost_file_is_noticed(recorded: Recorded) -> None:
    path = str(recorded.spec.sink.path)
    whole = read_output(path, committed=LAST)
    assert whole.rows == read_output(str(recorded.local.sink.path), committed=LAST).rows
    assert len(whole.rows) > 0
    assert whole.problems == whole.orphans == ()
    assert whole.manifest is not None
    lost = Location(open_path(path).fs, whole.manifest.files[0])
    name = lost.path.rpartition("/")[2]
    away = Location(lost.fs, f"{recorded.hdfs.url}/away/{name}")
    move(lost, away)
    try:
        assert read_output(path, committed=LAST).problems == (f"the manifest names {name}, which is not there",)
        assert [(found.consequence.value, found.path) for found in report(recorded.spec).findings] == [("loses", name)]
    finally:
        move(away, lost)
    assert report(recorded.spec).findings == ()


def test_health_sees_what_waits(recorded: Recorded) -> None:
    seen = probe(recorded.spec)
    assert seen.problems == ()
    assert seen.waiting is not None
    assert seen.waiting.count == FILES - LAST
    assert seen.state


@pytest.mark.parametrize(("rewind", "batch", "unseen"), [(0, 13, 4), ("all", None, 17)])
def test_a_fork_is_local_and_names_nothing_of_hdfs(
    recorded: Recorded, rewind: int | str, batch: int | None, unseen: int, tmp_path: Path
) -> None:
    made = fork(recorded.spec, into=tmp_path / "f", rewind=rewind)  # type: ignore[arg-type]
    assert (made.batch, made.inputs, made.unseen, made.spec.stored) == (batch, FILES, unseen, frozenset())
    if batch is not None:
        assert (report(made.spec).findings, report(made.spec).position.committed) == ((), batch)
    ours = [path for path in (tmp_path / "f").rglob("*") if path.is_file() and b"hdfs://" in path.read_bytes()]
    assert not [path for path in ours if {"_spark_metadata", "sources", "_metadata"} & {*path.parts}]


def test_a_fork_in_hdfs_goes_without_a_trace(recorded: Recorded, tmp_path: Path) -> None:
    at = f"{recorded.hdfs.url}/drills of mine/1"
    before = listing(recorded.hdfs, "/a stream")
    made = fork(recorded.spec, into=tmp_path / "f", at=at, rewind=2)
    assert (made.batch, made.unseen, made.spec.checkpoint) == (LAST - 2, 5, f"{at}/checkpoint")
    seen = report(made.spec)
    assert (seen.findings, seen.position.committed, seen.sink_newest) == ((), LAST - 2, LAST - 2)
    clear(tmp_path / "f", made.spec)
    assert listing(recorded.hdfs, "/drills of mine") == {}
    assert listing(recorded.hdfs, "/a stream") == before


@pytest.mark.parametrize("there", [True, False], ids=["in HDFS", "on this host"])
def test_a_savepoint_of_a_checkpoint_in_hdfs(recorded: Recorded, tmp_path: Path, there: bool) -> None:
    """A byte that is changed is named, and nothing is left at the end."""
    at = f"{recorded.hdfs.url}/backups" if there else None
    spec = replace(recorded.spec, data=str(tmp_path), savepoints=SavepointsSpec(folder=at))
    savepoints, saved = Savepoints.of(spec), create(spec, None, ANN)
    assert (saved.batch, saved.sink.newest, verify(savepoints, saved)) == (LAST, LAST, ())
    assert [entry.condition for entry in savepoints.entries()] == [Condition.COMPLETE]
    file = savepoints.place(saved.id) / next(file.path for file in saved.files if file.path.endswith(".sst"))
    content = file.read()
    if not there:
        Path(file.path).unlink()
    file.write(bytes([content[0] ^ 1]) + content[1:])
    assert [fault.fault for fault in verify(savepoints, saved)] == [Fault.DIGEST]
    delete(savepoints, saved.id)
    assert savepoints.ids() == []


def test_a_stream_is_put_back_by_two_renames(
    recorded: Recorded, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing that it had is lost, and what Hadoop's shell lists is one whole checkpoint."""
    hdfs = recorded.hdfs
    spec = stored(hdfs, recorded.local, "/restored", tmp_path_factory.mktemp("put") / "b")
    spec = replace(spec, data=str(tmp_path), savepoints=SavepointsSpec(folder=f"{hdfs.url}/backups"))
    create(spec, 10, ANN)
    store = Store(f"sqlite:///{tmp_path}/store.db")
    store.migrate()
    had = listing(hdfs, "/restored/checkpoint")
    done = restore(store, spec, None, Request(author=ANN))
    assert done.aside == f"{spec.checkpoint}.before-{done.exchange.stamp}"
    assert had.items() <= listing(hdfs, f"/restored/checkpoint.before-{done.exchange.stamp}").items()
    assert "commits/11" not in listing(hdfs, "/restored/checkpoint")
    seen = report(spec)
    assert (seen.findings, seen.position.committed, seen.sink_newest) == ((), 10, 10)


def test_a_file_is_written_whole_and_read_from_anywhere(folder: Location) -> None:
    content, file = os.urandom(3 << 20), folder / "a%20 b#c?.d"
    file.write(b"before")
    file.write(content)
    assert folder.names() == ["a%20 b#c?.d"]
    assert file.read() == content
    assert file.read(len(content)) == content
    with pytest.raises(TooLarge):
        file.read(len(content) - 1)
    with file.open() as reader:
        assert reader.seek(-5, os.SEEK_END) == len(content) - 5
        assert reader.read() == content[-5:]
        assert reader.seek(1 << 20) == 1 << 20
        assert reader.read(70_000) == content[1 << 20 : (1 << 20) + 70_000]
        reader.seek(0)
        assert reader.read() == content


def test_a_copy_is_as_old_as_its_original(folder: Location, tmp_path: Path) -> None:
    local = tmp_path / "input.json"
    local.write_bytes(b"{}")
    os.utime(local, (1_700_000_000.123, 1_700_000_000.123))
    bring(open_path(local), folder / "deep/up")
    bring(folder / "deep/up", folder / "copy")
    download(folder / "copy", tmp_path / "down")
    seen = [
        (folder / "deep/up").stat().modified,
        (folder / "copy").stat().modified,
        (tmp_path / "down").stat().st_mtime,
    ]
    assert seen == pytest.approx([1_700_000_000.123] * 3, abs=0.001)
    assert (tmp_path / "down").read_bytes() == b"{}"
    assert [entry.name for entry in folder.entries() if entry.is_dir] == ["deep"]


def test_a_rename_never_replaces(folder: Location) -> None:
    for name in ("a/x", "b/y"):
        (folder / name).write(name.encode())
    with pytest.raises(FileExistsError):
        move(folder / "a", folder / "b")
    move(folder / "a", folder / "new/place")
    assert ((folder / "new/place/x").read(), exists(folder / "a")) == (b"a/x", False)
    assert (remove(folder / "b"), remove(folder / "b")) == (True, False)


def test_what_is_not_there_is_told_as_on_a_disk(folder: Location) -> None:
    (folder / "file").write(b"")
    for ask in (Location.names, Location.stat, Location.read, Location.open):
        with pytest.raises(FileNotFoundError):
            ask(folder / "nothing")
    with pytest.raises(NotADirectoryError):
        (folder / "file").names()
    assert (folder / "file").read() == b""


def test_many_threads_read_at_once(folder: Location) -> None:
    """As a savepoint is verified."""
    for number in range(8):
        (folder / str(number)).write(bytes([number]) * 100_000)
    wrong: list[int] = []

    def read(number: int) -> None:
        if (folder / str(number)).read() != bytes([number]) * 100_000:
            wrong.append(number)

    threads = [threading.Thread(target=read, args=(number % 8,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_validate_refuses_what_this_host_cannot_read(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a user without the right to read. Negative control: the stream itself is not refused."""
    assert unreadable_place(recorded.spec) is None
    assert unreadable_place(replace(recorded.spec, checkpoint=f"{recorded.hdfs.url}/not/there/yet")) is None
    recorded.hdfs.shell("-mkdir", "-p", "/secret/checkpoint")
    recorded.hdfs.shell("-chmod", "700", "/secret")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    denied = unreadable_place(replace(recorded.spec, checkpoint=f"{recorded.hdfs.url}/secret/checkpoint"))
    assert denied is not None
    assert "Permission denied" in denied.observed
    away = {"fs.defaultFS": "hdfs://127.0.0.1:1", "dfs.namenode.http-address": f"127.0.0.1:{free_port()}"}
    write_settings(tmp_path / "core-site.xml", away)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    refused = unreadable_place(replace(recorded.spec, checkpoint="hdfs:///a"))
    assert refused is not None
    assert "hdfs:///a cannot be read from this host: WebHDFS does not answer" in refused.observed
    assert refused.where.endswith("checkpoint")
    assert "dfs.namenode.http-address" in refused.next_step
    with pytest.raises(CheckpointError, match="WebHDFS does not answer"):
        fork(replace(recorded.spec, checkpoint="hdfs:///a"), into=tmp_path / "f")


def test_a_new_stream_of_a_data_folder_in_hdfs_finds_its_sample_there(recorded: Recorded, tmp_path: Path) -> None:
    """In the order of the files, although they were written within a second."""
    url = DataUrl(f"{recorded.hdfs.url}/projects/new")
    written = new_stream("orders", JOB, project=tmp_path, data=url)
    (spec,) = load_catalog(tmp_path, tmp_path / "var", data_url=url).streams.values()
    assert unreadable_place(spec) is None
    assert (written.input, spec.checkpoint) == (spec.source.path, f"{url}/checkpoints/orders")
    found = sorted(open_path(written.input).entries(), key=lambda file: file.modified or 0)
    assert [file.name for file in found] == [name for name, _ in JOB.sample()]
    assert len({file.modified for file in found}) == len(found)
    with pytest.raises(ConfigError, match="nothing was written"):
        new_stream("orders", JOB, project=tmp_path / "other", data=url)


def test_the_client_is_the_products_own(folder: Location) -> None:
    assert isinstance(folder.fs, HdfsFiles)
