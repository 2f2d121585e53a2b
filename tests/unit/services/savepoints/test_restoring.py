"""A stream is put back to a savepoint, or nothing is changed; a restore that was killed completes when it is run again.

That Spark goes on rightly is shown by tests/spark/proofs/test_fork_run.py.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError, LaunchRefused, LeaseHeld
from streamwarden.health.quarantine import mark_of
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan, journal_of
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST, Savepoint
from streamwarden.services.analysis.history import history
from streamwarden.services.exchanges.exchanging import Exchanged
from streamwarden.services.fleet.claims import claim
from streamwarden.services.fleet.launch_check import require_fit
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import SinkSpec, StreamSpec, TriggerSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.killed import changes_of, killed_at

ANN = Author(by="ann", reason="a wrong job")
ASKED = Request(author=ANN)
BATCH, NEWEST = 7, 13


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """Batches 0 to 13 are committed; both compactible logs were compacted at 9; a savepoint has batch 7."""
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    made = replace(stream_of(tmp_path / "origin", files=17), data=str(tmp_path / "data"))
    create(made, BATCH, ANN)
    return made


def put_back(store_url: str, spec: StreamSpec, savepoint: str | None = None) -> Exchanged:
    with Store(store_url) as store:
        return restore(store, spec, savepoint, ASKED)


def output_of(spec: StreamSpec) -> Path:
    return Path(str(spec.sink.path))


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_at(spec: StreamSpec, batch: int) -> bool:
    """Whether checkpoint and output are those of a query that has committed this batch, and whole."""
    report = read_checkpoint(open_path(spec.checkpoint), output=open_path(output_of(spec)))
    assert report.findings == ()
    return report.position.committed == report.sink_newest == batch


def everything(spec: StreamSpec) -> dict[str, bytes]:
    return files_below(Path(spec.checkpoint).parent)


def test_a_stream_is_put_back_and_nothing_is_lost(spec: StreamSpec, store: Store) -> None:
    before, output_before = files_below(Path(spec.checkpoint)), files_below(output_of(spec))
    rows = read_output(output_of(spec), committed=NEWEST).count
    done = restore(store, spec, None, ASKED)
    assert is_at(spec, BATCH)
    assert (done.exchange.batch, done.resumed) == (BATCH, False)
    kept = files_below(Path(str(done.aside)))
    assert {name: kept[name] for name in before} == before
    aside = next(output_of(spec).glob("_set_aside-*"))
    moved = files_below(aside)
    here = {name: content for name, content in files_below(output_of(spec)).items() if not name.startswith("_")}
    data = {name: content for name, content in output_before.items() if name.endswith(".parquet")}
    assert {name: content for name, content in {**moved, **here}.items() if name.endswith(".parquet")} == data
    seen = read_output(output_of(spec), committed=BATCH)
    assert seen.problems == ()
    assert 0 < seen.count < rows
    assert set(here) >= {Path(file).name for file in seen.manifest.files} if seen.manifest else False


def test_malformed_rows_of_later_batches_leave_the_quarantine(spec: StreamSpec, store: Store, tmp_path: Path) -> None:
    """The batches that get their numbers may read other rows. Those of other queries stay."""
    quarantine, query_id = tmp_path / "quarantine", json.loads(Path(spec.checkpoint, "metadata").read_text())["id"]
    for query in (query_id, "another"):
        for batch in (BATCH, BATCH + 1, NEWEST):
            (quarantine / f"query={query}/batch={batch}").mkdir(parents=True)
            (quarantine / f"query={query}/batch={batch}/part.json").write_text("{}")
    mark = quarantine / mark_of(query_id)
    mark.write_text(str(NEWEST))
    restore(store, replace(spec, quarantine=str(quarantine)), None, ASKED)
    assert [path.name for path in quarantine.glob(f"query={query_id}/*")] == [f"batch={BATCH}"]
    assert len(list(quarantine.glob("query=another/*"))) == 3
    assert len(list(quarantine.glob(f"_set_aside-*/query={query_id}/*/part.json"))) == 2
    assert mark.read_text() == str(BATCH)


def test_what_a_reader_sees_without_the_manifest_is_right_too(spec: StreamSpec, store: Store) -> None:
    """Later data files are not in the output any more, also for a reader that lists the folder."""
    orphans = set(read_output(output_of(spec), committed=NEWEST).orphans)
    restore(store, spec, None, ASKED)
    assert set(read_output(output_of(spec), committed=BATCH).orphans) == orphans, "those of cut batches stay"


def test_a_launch_goes_on_from_the_savepoint(spec: StreamSpec, store: Store) -> None:
    """The store knows batch 13 of the query, and lets it go on with batch 8: a person put it back."""
    record, lease = claim(store, Path(spec.data), spec, launched_by="test", ttl=30, now=time.time() - 100)
    store.drivers.launched(record)
    store.leases.release(lease, now=time.time() - 90)
    query_id = json.loads(Path(spec.checkpoint, "metadata").read_text())["id"]
    store.batches.upsert_logged(spec.name, query_id, NEWEST, time.time() - 60, time.time() - 60)
    store.batches.upsert_logged(spec.name, query_id, BATCH, time.time() - 70, time.time() - 70)
    assert store.batches.newest([spec.name])[spec.name].batch_id == NEWEST
    restore(store, spec, None, ASKED)
    require_fit(store, spec, "d", {}, at=time.time())
    newest = store.batches.newest([spec.name])[spec.name]
    assert newest.batch_id == BATCH, "status and pages do not show a batch that was taken back"
    store.batches.upsert_logged(spec.name, query_id, NEWEST, time.time() + 60, time.time() + 60)
    assert store.batches.newest([spec.name])[spec.name].at > newest.at + 60, "that which gets its number is a new one"
    assert store.batches.summary(spec.name).batches == 3, "what ran is still counted"
    (event,) = [event for event in history(store, spec.name, 0.0) if event.kind is EventKind.RESTORED]
    assert event.who == "ann"
    assert f"batch {BATCH}" in event.why


def test_an_older_checkpoint_that_nobody_restored_is_refused_as_before(spec: StreamSpec, store: Store) -> None:
    """Negative control: that is what the record of the restore is for."""
    query_id = json.loads(Path(spec.checkpoint, "metadata").read_text())["id"]
    store.batches.upsert_logged(spec.name, query_id, 99, time.time(), time.time())
    with pytest.raises(LaunchRefused):
        require_fit(store, spec, "d", {}, at=time.time())


LAST = 12
"""Changes of a restore at its end, of which each is tried; of those before, which copy, some."""


def test_kill_9_at_any_step_is_completed_by_the_next_run(unpack: Unpack, tmp_path: Path, store_url: str) -> None:
    """Before the journal is written nothing has changed; after it no driver starts until the restore is complete."""

    def laid_out(name: str) -> StreamSpec:
        unpack("spark-4.0.1-changelog", tmp_path / name / "origin")
        spec = replace(stream_of(tmp_path / name / "origin", files=0), data=str(tmp_path / name / "data"))
        create(spec, 2, ANN)
        return spec

    changes = changes_of(partial(put_back, store_url, laid_out("whole")))
    seen = set()
    for step in (*range(1, changes - LAST, 15), *range(changes - LAST, changes + 1)):
        spec = laid_out(str(step))
        before = everything(spec)
        assert killed_at(step, partial(put_back, store_url, spec))
        begun = Path(journal_of(spec.checkpoint)).exists()
        if begun:
            with Store(store_url) as store, pytest.raises(LaunchRefused, match=r"a restore of .* was interrupted"):
                require_fit(store, spec, "d", {}, at=time.time())
        else:
            assert {name: content for name, content in everything(spec).items() if name in before} == before
            assert is_at(spec, 5)
        seen.add(begun)
        assert put_back(store_url, spec).resumed is begun
        assert is_at(spec, 2)
        assert sorted(path.name for path in Path(spec.checkpoint).parent.glob("checkpoint*"))[0] == "checkpoint"
        assert not Path(journal_of(spec.checkpoint)).exists()
        assert not list(Path(spec.checkpoint).parent.rglob("*.prepared-*"))
    assert seen == {False, True}


def assert_refused(store: Store, spec: StreamSpec, error: type[Exception], message: str) -> None:
    """And nothing is changed."""
    before = everything(spec)
    with pytest.raises(error, match=message):
        restore(store, spec, None, ASKED)
    assert everything(spec) == before


def test_a_running_stream_is_not_restored(spec: StreamSpec, store: Store) -> None:
    claim(store, Path(spec.data), spec, launched_by="test", ttl=30, now=time.time())
    assert_refused(store, spec, LeaseHeld, "minutes runs, or its checkpoint is being exchanged")


def test_a_query_is_not_restored_while_the_driver_of_its_stream_runs(spec: StreamSpec, store: Store) -> None:
    """The driver may not have named this checkpoint: a script opens what it wants."""
    query = replace(spec, name="minutes/one")
    create(query, BATCH, ANN)
    driver = replace(spec, checkpoint=f"{spec.checkpoint} of the script")
    claim(store, Path(spec.data), driver, launched_by="test", ttl=30, now=time.time())
    assert_refused(store, query, LeaseHeld, "minutes/one runs, or its checkpoint is being exchanged")


def test_a_savepoint_that_does_not_verify_is_not_restored(spec: StreamSpec, store: Store) -> None:
    savepoints = Savepoints.of(spec)
    Path(savepoints.place(savepoints.ids()[0]).path, "checkpoint/commits/7").unlink()
    assert_refused(store, spec, CheckpointError, "is not as it was saved: checkpoint/commits/7")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"stream": "minutes"', '"stream": "hours"', "it is of the stream hours"),
        ('"query_id": "', '"query_id": "f', "the stream began anew since"),
        ('/checkpoint"', '/elsewhere"', "files in it name that place"),
    ],
)
def test_a_savepoint_of_another_stream_is_not_restored(
    spec: StreamSpec, store: Store, old: str, new: str, message: str
) -> None:
    savepoints = Savepoints.of(spec)
    manifest = Path(savepoints.place(savepoints.ids()[0]).path, MANIFEST)
    text = manifest.read_text()
    assert old in text
    manifest.write_text(text.replace(old, new))
    assert_refused(store, spec, CheckpointError, message)


def test_a_checkpoint_of_a_newer_spark_is_not_restored(spec: StreamSpec, store: Store) -> None:
    """A savepoint of a newer Streamwarden, which knows that Spark."""
    savepoints = Savepoints.of(spec)
    folder = Path(savepoints.place(savepoints.ids()[0]).path)
    offsets = folder / "checkpoint/offsets/7"
    content = offsets.read_bytes().replace(b"v1", b"v9", 1)
    offsets.unlink()
    offsets.write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    for file in manifest["files"]:
        if file["path"] == "checkpoint/offsets/7":
            file["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="of a later Spark"):
        restore(store, spec, None, ASKED)
    assert is_at(spec, NEWEST)


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (KafkaSink(connection="k", topic="t", key=("k",)), "a sink of the kind kafka cannot be put back"),
        (SinkSpec(), "its output is not declared"),
    ],
)
def test_an_output_that_cannot_be_taken_back_is_refused(
    spec: StreamSpec, store: Store, sink: SinkSpec, message: str
) -> None:
    """A topic in real-time mode: its records do not name their batch."""
    live = replace(spec, sink=sink, trigger=TriggerSpec(real_time=60.0))
    with pytest.raises(CheckpointError, match=message):
        restore(store, live, None, replace(ASKED, confirmed=True))
    assert is_at(spec, NEWEST)


class Remaining(ParquetSink):
    """A sink that cannot take back all it has written."""

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        return replace(super().plan_restore(spec, restore, manifest), remains="3 records can have been read")


def test_what_cannot_be_taken_back_is_confirmed_by_a_person(spec: StreamSpec, store: Store) -> None:
    remaining = replace(spec, sink=Remaining(path=spec.sink.path or ""))
    assert_refused(store, remaining, CheckpointError, "cannot be taken back: 3 records can have been read")
    restore(store, remaining, None, replace(ASKED, confirmed=True))
    assert is_at(spec, BATCH)


def test_a_savepoint_that_a_fork_does_not_go_on_from_is_not_restored(spec: StreamSpec, store: Store) -> None:
    tried = []

    def prove(saved: Savepoint) -> str:
        tried.append(saved.batch)
        if len(tried) == 1:
            raise CheckpointError("the job does not know this state")
        return "a fork went on"

    before = everything(spec)
    with pytest.raises(CheckpointError, match="does not know this state"):
        restore(store, spec, None, replace(ASKED, prove=prove))
    assert {name: content for name, content in everything(spec).items() if ".prepared-" not in name} == before
    assert restore(store, spec, None, replace(ASKED, prove=prove)).exchange.proof == "a fork went on"
    assert tried == [BATCH, BATCH]


def test_a_manifest_that_is_not_whole_is_refused(spec: StreamSpec, store: Store) -> None:
    """It is not known then which files are of later batches."""
    (output_of(spec) / "_spark_metadata/12").unlink()
    with pytest.raises(CheckpointError, match="it is not known which files are of later batches"):
        restore(store, spec, None, ASKED)
    assert read_checkpoint(open_path(spec.checkpoint)).position.committed == NEWEST


def test_another_savepoint_waits_for_the_one_that_was_interrupted(spec: StreamSpec, store: Store) -> None:
    Path(journal_of(spec.checkpoint)).write_text("{}")
    with pytest.raises(
        CheckpointError, match="the journal of an interrupted exchange of the checkpoint cannot be read"
    ):
        restore(store, spec, None, ASKED)


def test_a_checkpoint_that_is_gone_is_restored(spec: StreamSpec, store: Store) -> None:
    shutil.rmtree(spec.checkpoint)
    done = restore(store, spec, None, ASKED)
    assert done.aside is None
    assert is_at(spec, BATCH)


def test_a_restored_stream_can_be_put_back_again(spec: StreamSpec, store: Store) -> None:
    create(spec, NEWEST, ANN)
    restore(store, spec, Savepoints.of(spec).ids()[-1], ASKED)
    assert is_at(spec, BATCH)
    again = restore(store, spec, Savepoints.of(spec).ids()[-1], ASKED)
    assert is_at(spec, BATCH)
    assert again.output.startswith("0 data files")
