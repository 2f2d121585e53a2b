"""What a look at state holds of the checkpoint, what it asks the reading process, and what it says without an answer.

The reader is a function here: it does to the stream's checkpoint what Spark's purge does, and then answers.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.checkpoint.integrity import check_state_file
from streamwarden.errors import CheckpointError, CheckpointMissing, ConfigError, ProcessError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import (
    Answer,
    Difference,
    Entry,
    Exported,
    History,
    Moment,
    Refused,
    Share,
    Shown,
)
from streamwarden.services.auditing.records import FOLDER
from streamwarden.services.auditing.work import WORK
from streamwarden.services.state import gathering, looking
from streamwarden.services.state.exports import NOTE, Target, export_to, target_of
from streamwarden.services.state.looking import Selection, diff, history, show
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.servers.memory_files import ROOT, MemoryFiles

ALL = Selection()
ENTRY = Entry(partition=1, key=("k0", None), item='{"second":4}', value='{"n":1}', expires_ms=5)
SHOWN = Shown(
    fields=("key", "other"),
    rows=1,
    entries=(ENTRY,),
    partitions=(Share(partition=1, rows=1, bytes=8),),
    largest=(Share(key=("k0", None), rows=1, bytes=None),),
)


@pytest.fixture
def run(unpack: Unpack, tmp_path: Path) -> Callable[[str], StreamSpec]:
    """The run of an archive."""

    def made(kind: str) -> StreamSpec:
        unpack(f"spark-4.3.0-{kind}", tmp_path / "origin")
        return replace(stream_of(tmp_path / "origin", files=6), data=str(tmp_path / "data"))

    return made


def can_be_read(checkpoint: Path, batches: list[int]) -> bool:
    """Whether the state after each batch is all there, each file as Spark wrote it."""
    held = open_path(str(checkpoint))
    stores = state_stores(held)
    for store in stores:
        for load in (store.load(batch + 1) for batch in batches):
            for file in filter(None, (load.snapshot, *load.changes)):
                check_state_file(held, store, file, "lz4")
            if not load.complete:
                return False
    return bool(stores)


@dataclass
class Reader:
    """Stands where Spark reads. `meanwhile` is what happens to the stream before it does."""

    answer: Answer | Refused | None = SHOWN
    meanwhile: Callable[[], None] = lambda: None
    files: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    specs: list[StreamSpec] = field(default_factory=list)
    held: list[set[str]] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)

    def __call__(self, name: str, spec: StreamSpec, folder: Path, **options: Any) -> int:
        assert name == "state"
        self.asked.extend(json.loads((folder / "request.json").read_text()))
        self.specs.append(spec)
        self.meanwhile()
        held = Path(of_hadoop(self.asked[-1]["checkpoint"]))
        assert held.is_relative_to(folder)
        self.held.append({str(path.relative_to(held)) for path in held.rglob("*")})
        self.whole.append(can_be_read(held, self.asked[-1]["batches"]))
        (folder / "state.log").write_text("java.lang.OutOfMemoryError")
        for path, content in self.files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(content)
        if self.answer is not None:
            name = "refused" if isinstance(self.answer, Refused) else "result"
            (folder / f"{name}.json").write_text(
                json.dumps(asdict(self.answer) if name == "refused" else [asdict(self.answer)])
            )
        return 1


def read_by(patch: pytest.MonkeyPatch, reader: Reader) -> Reader:
    patch.setattr(looking, "run_program", reader)
    return reader


def content(folder: Path) -> dict[str, tuple[bytes, float]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime) for path in folder.rglob("*") if path.is_file()}


def newest(spec: StreamSpec) -> int:
    return max(int(path.name) for path in Path(spec.checkpoint, "commits").iterdir() if path.name.isdigit())


def parts(error: StreamwardenError) -> tuple[str, str, str, str]:
    found = error.observed, error.expected, error.where, error.next_step
    assert all(found)
    return found


def test_a_look_holds_what_spark_purges_meanwhile_and_changes_nothing(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("changelog")
    before = content(Path(spec.checkpoint))
    reader = read_by(monkeypatch, Reader())
    look = show(spec, ALL, batch=7)
    assert content(Path(spec.checkpoint)) == before
    assert (look.batches, look.answer, look.stream) == ((7,), SHOWN, spec.name)
    assert max(look.kept) == newest(spec)
    assert reader.asked[0]["asked"] == "show"
    assert reader.asked[0]["batches"] == [7]
    assert not [path for path in (Path(spec.data) / FOLDER / WORK).iterdir() if path.is_dir()]

    read_by(monkeypatch, purged := Reader(meanwhile=lambda: shutil.rmtree(spec.checkpoint)))
    assert show(spec, ALL).answer == SHOWN
    assert purged.whole == [True]
    assert {"offsets/7", "commits/7", "state/0/0/8.changelog"} <= purged.held[0]


def test_the_process_reads_one_partition_at_a_time_in_a_bounded_heap(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("changelog")
    reader = read_by(monkeypatch, Reader())
    show(replace(spec, spark=replace(spec.spark, driver_memory=4 * 2**30)), ALL)
    assert (reader.specs[0].spark.master, reader.specs[0].spark.driver_memory) == ("local[1]", 2**30)


def test_state_that_is_read_in_the_heap_gets_the_heap_of_the_stream(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("hdfs")
    reader = read_by(monkeypatch, Reader())
    show(replace(spec, spark=replace(spec.spark, driver_memory=4 * 2**30)), ALL)
    assert reader.specs[0].spark.driver_memory == 4 * 2**30


@pytest.mark.parametrize(
    ("kind", "tables"),
    [
        ("hdfs", [(0, None)]),
        ("join", [(0, "left"), (0, "right")]),
        ("join-columns", [(0, "left"), (0, "right")]),
        ("processor", [(0, "count"), (0, "ids"), (0, "seconds"), (0, "timers")]),
        ("sessions", [(0, None), (1, None)]),
    ],
)
def test_each_table_of_a_checkpoint_can_be_named(
    run: Callable[[str], StreamSpec],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    tables: list[tuple[int, str | None]],
) -> None:
    spec = run(kind)
    reader = read_by(monkeypatch, Reader())
    for operator, variable in tables:
        show(spec, Selection(operator=operator, variable=variable))
    assert [(asked["table"]["operator"], asked["table"]["variable"]) for asked in reader.asked] == tables
    with pytest.raises(ConfigError, match=f"--operator {tables[-1][0]}"):
        show(spec, Selection(operator=9))


def test_state_of_a_checkpoint_that_names_no_operators_can_be_read(
    unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Spark 3.5: the operator is known by its schema."""
    unpack("spark-3.5.6-hdfs", tmp_path / "origin")
    reader = read_by(monkeypatch, Reader())
    show(replace(stream_of(tmp_path / "origin", files=5), data=str(tmp_path / "data")), ALL)
    assert reader.asked[0]["table"]["name"] == "stateStoreSave"


def test_a_batch_whose_state_is_gone_is_not_offered(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("changelog")
    read_by(monkeypatch, Reader())
    whole = show(spec, ALL).kept
    for number in (0, 1):
        Path(spec.checkpoint, "commits", str(number)).unlink()
    store = Path(spec.checkpoint, "state/0/0")
    version = next(version for version in range(4, newest(spec)) if not (store / f"{version}.zip").exists())
    (store / f"{version}.changelog").unlink()
    kept = set(show(spec, ALL).kept)
    assert kept < set(whole) - {0, 1, version - 1}
    assert newest(spec) in kept
    with pytest.raises(CheckpointError) as caught:
        show(spec, ALL, batch=1)
    assert parts(caught.value)[0] == "the state of batch 1 is not kept any more"
    assert caught.value.where == spec.checkpoint


def test_what_the_reader_refuses_has_four_parts(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("hdfs")
    for usage, kind in ((True, ConfigError), (False, CheckpointError)):
        refused = Refused(observed="o", expected="e", where="w", next_step="n", usage=usage)
        read_by(monkeypatch, Reader(refused))
        with pytest.raises(kind) as caught:
            show(spec, ALL)
        assert parts(caught.value) == ("o", "e", "w", "n")
    read_by(monkeypatch, Reader(None))
    with pytest.raises(ProcessError, match="OutOfMemoryError") as died:
        show(spec, ALL)
    assert parts(died.value)


def test_a_key_without_rows_is_an_error(run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, none = run("hdfs"), replace(SHOWN, rows=0, entries=(), partitions=())
    read_by(monkeypatch, Reader(none))
    assert show(spec, ALL).answer.rows == 0, "a state may be empty"
    with pytest.raises(CheckpointError) as caught:
        show(spec, Selection(keys=("key=nobody",)), batch=3)
    assert parts(caught.value)[0] == "the state has no row with the key key=nobody after batch 3"
    read_by(monkeypatch, Reader(History(fields=("key",), moments=(Moment(batch=0, rows=0, entries=()),))))
    with pytest.raises(CheckpointError, match="after any batch"):
        history(spec, Selection(keys=("nobody",)))


def test_a_history_asks_for_all_kept_batches_or_the_last_ones(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("hdfs")
    past = History(fields=("key",), moments=(Moment(batch=0, rows=1, entries=(ENTRY,)),))
    reader = read_by(monkeypatch, Reader(past))
    look = history(spec, Selection(keys=("key=k1",)))
    assert look.answer == past
    assert tuple(reader.asked[0]["batches"]) == look.kept
    history(spec, Selection(keys=("key=k1",)), last=2)
    assert tuple(reader.asked[1]["batches"]) == look.kept[-2:]


def test_a_difference_goes_forward(run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, counts = run("hdfs"), dict.fromkeys(("appeared", "vanished", "changed", "unchanged", "grew", "shrank"), 1)
    reader = read_by(monkeypatch, Reader(Difference(fields=("key",), rows_before=1, rows_after=2, **counts)))
    assert diff(spec, ALL, before=2).batches == (2, newest(spec))
    assert reader.asked[0]["asked"] == "diff"
    for before, after in ((4, 4), (5, 4)):
        with pytest.raises(ConfigError) as caught:
            diff(spec, ALL, before=before, after=after)
        assert parts(caught.value)


def test_what_cannot_be_looked_at_is_said(run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    read_by(monkeypatch, Reader())
    spec = run("hdfs")
    with pytest.raises(CheckpointMissing) as missing:
        show(replace(spec, checkpoint=f"{spec.checkpoint}-none"), ALL)
    assert parts(missing.value)
    shutil.rmtree(Path(spec.checkpoint, "state"))
    with pytest.raises(CheckpointError, match="keeps no state") as stateless:
        show(spec, ALL)
    assert parts(stateless.value)
    shutil.rmtree(Path(spec.checkpoint, "commits"))
    with pytest.raises(CheckpointError, match="no batch was committed yet"):
        show(spec, ALL)


EXPORTED = Exported(rows=2, header=("partition", "key.a,b"))
PARTS = {
    "export/part-0.csv": "0,x\n",
    "export/part-1.csv": "1,y\n",
    "export/_SUCCESS": "",
    "export/.part-0.csv.crc": "",
}


def without_links(patch: pytest.MonkeyPatch) -> None:
    """As between two disks."""

    def refused(source: str, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)

    patch.setattr(os, "link", refused)


@pytest.mark.parametrize("kind", ["hdfs", "changelog", "rocksdb", "format2", "processor", "join"])
def test_what_cannot_be_linked_is_copied_for_the_chosen_batches_alone(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    spec = run(kind)
    variable = {"processor": "count", "join": "left"}.get(kind)
    without_links(monkeypatch)
    reader = read_by(monkeypatch, Reader())
    look = show(spec, Selection(variable=variable), batch=1)
    kept = {int(path.name) for path in Path(spec.checkpoint, "commits").iterdir() if path.name.isdigit()}
    assert set(look.kept) == kept, "what is kept is known without copying it"
    logs = {path for path in reader.held[0] if path.startswith(("commits/", "offsets/", "sources"))}
    assert logs == {"commits/1", "offsets/1"}
    assert reader.whole == [True]
    assert not {path for path in reader.held[0] if path.endswith(("/3.changelog", "/3.delta", "/3.zip"))}


def test_a_checkpoint_in_an_object_store_is_copied(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run("changelog")
    tree = {
        str(path.relative_to(spec.checkpoint)): path.read_bytes()
        for path in Path(spec.checkpoint).rglob("*")
        if path.is_file()
    }
    monkeypatch.setattr(gathering, "checkpoint_of", lambda spec: Location(MemoryFiles(tree), ROOT))
    reader = read_by(monkeypatch, Reader())
    assert show(spec, ALL, batch=4).batches == (4,)
    assert reader.whole == [True]
    held = {path for path in reader.held[0] if path.endswith((".changelog", ".zip"))}
    assert held
    assert all(int(path.rpartition("/")[2].partition(".")[0]) <= 5 for path in held)


def test_a_csv_file_is_private_and_replaced_whole(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = run("hdfs")
    read_by(monkeypatch, Reader(EXPORTED, files=PARTS))
    path = tmp_path / "state.csv"
    path.write_text("an earlier export, which was longer than this one\n" * 9)
    export_to(spec, ALL, target_of(str(path), spec))
    assert path.read_text() == 'partition,"key.a,b"\n0,x\n1,y\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".state*"))


def test_a_folder_of_parquet_files_is_private_and_replaced_whole(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, path = run("hdfs"), tmp_path / "state.parquet"
    for parts_of in (PARTS, {"export/part-2.parquet": "second"}):
        read_by(monkeypatch, Reader(EXPORTED, files=parts_of))
        export_to(spec, ALL, target_of(str(path), spec), batch=3)
    assert sorted(file.name for file in path.iterdir()) == [NOTE, "part-2.parquet"]
    assert json.loads((path / NOTE).read_text()) == {
        "stream": spec.name,
        "batch": 3,
        "operator": 0,
        "operator_name": "stateStoreSave",
        "variable": None,
        "rows": 2,
    }
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}
    assert not list(tmp_path.glob(".state*"))


def test_an_export_that_fails_leaves_the_earlier_one(
    run: Callable[[str], StreamSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, path = run("hdfs"), tmp_path / "state.parquet"
    read_by(monkeypatch, Reader(EXPORTED, files=PARTS))
    export_to(spec, ALL, target_of(str(path), spec))
    before = content(path)
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="no space"):
        export_to(spec, ALL, target_of(str(path), spec))
    assert content(path) == before
    assert not list(tmp_path.glob(".state*"))


def test_an_export_replaces_nothing_else(run: Callable[[str], StreamSpec], tmp_path: Path) -> None:
    spec = run("hdfs")
    other = tmp_path / "other.parquet"
    other.mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "folder.csv").mkdir()
    refused = {
        "state.json": "names no format",
        str(other): "something else",
        str(tmp_path / "folder.csv"): "something else",
        str(tmp_path / "link.csv"): "symbolic link",
        str(tmp_path / "none/state.csv"): "does not exist",
        f"{spec.checkpoint}/state.csv": "in a place of the stream",
        f"{spec.sink.path}/../output/state.parquet": "in a place of the stream",
        f"{spec.source.path}/state.csv": "in a place of the stream",
    }
    for given, why in refused.items():
        with pytest.raises(ConfigError, match=why) as caught:
            target_of(given, spec)
        assert parts(caught.value)
    assert target_of(str(tmp_path / "new.parquet"), spec) == Target(tmp_path / "new.parquet", "parquet")
