"""A launch compares what store, checkpoint and output have, before it starts a driver."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.sink import newest_entry, read_sink_manifest
from streamwarden.errors import CheckpointError, LaunchRefused
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.events import EventKind
from streamwarden.lifecycle.launch_check import BEGAN_ANEW
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, decide
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.analysis.history import history
from streamwarden.services.fleet.claims import abandon, claim
from streamwarden.services.fleet.launch_check import gather, require_fit
from streamwarden.services.fleet.recorded_starts import keep_start
from streamwarden.services.forks.spec import fork_name
from streamwarden.sinks.files.set_aside import set_aside
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import SinkSpec, StorageSpec, StreamSpec, TriggerSpec

ID, ANOTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return StreamSpec(
        name="flights",
        job="job.py",
        source=FilesSource(path=str(tmp_path / "input")),
        sink=ParquetSink(path=str(tmp_path / "output")),
        checkpoint=str(tmp_path / "checkpoint"),
    )


def checkpoint(place: str, batches: int, query_id: str = ID) -> None:
    for log in ("offsets", "commits"):
        Path(place, log).mkdir(parents=True)
        for batch in range(batches):
            Path(place, log, str(batch)).write_text("v1")
    Path(place, "metadata").write_text(json.dumps({"id": query_id}))


def entries(output: str | None, batches: int) -> None:
    folder = Path(str(output), "_spark_metadata")
    folder.mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        (folder / str(batch)).write_text("v1")


def ran(store: Store, spec: StreamSpec, committed: int, *, name: str = "", place: str = "", at: float = 100.0) -> None:
    """A query of the stream has run on this checkpoint, and committed batches up to this one."""
    record = QueryRecord(
        stream=spec.name,
        name=name,
        checkpoint=place or spec.checkpoint,
        trigger=TriggerSpec(),
        driver_id="first",
        query_id=ID,
        run_id="run",
        first_at=at,
        started_at=at,
    )
    store.queries.started(record)
    store.batches.upsert_logged(record.identity, ID, committed, at, at + 1.0)


def launched(store: Store, spec: StreamSpec, driver: str, at: float) -> None:
    store.drivers.launched(
        DriverRecord(
            driver_id=driver,
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=1,
            folder="",
            launched_by="test",
            launched_at=at,
        )
    )


def look(store: Store, spec: StreamSpec, driver: str = "next", at: float = 200.0) -> None:
    launched(store, spec, driver, at)
    require_fit(store, spec, driver, {}, at=at)


def allow(store: Store, spec: StreamSpec, at: float = 150.0) -> None:
    state = DesiredState(
        stream=spec.name,
        desired=Desired.RUNNING,
        changed_by="ann",
        reason="again",
        changed_at=at,
        begin_anew="replayed input",
    )
    store.stops.set_desired(state)


def test_a_new_stream_and_one_that_goes_on_are_started(store: Store, spec: StreamSpec) -> None:
    look(store, spec, "first", 50.0)
    checkpoint(spec.checkpoint, 8)
    entries(spec.sink.path, 8)
    ran(store, spec, 7)
    look(store, spec)
    (compared,) = gather(store, spec, {}, 200.0)
    assert compared.known is not None
    assert compared.output is not None
    assert (compared.newest, compared.known.committed, compared.output.batch) == (7, 7, 7)
    assert not store.drivers.events_of(spec.name, BEGAN_ANEW), "no permission was needed"


def test_a_checkpoint_that_was_removed_refuses(store: Store, spec: StreamSpec) -> None:
    ran(store, spec, 7)
    entries(spec.sink.path, 8)
    with pytest.raises(LaunchRefused, match="gone or empty") as refused:
        look(store, spec)
    assert "begin-anew" in refused.value.next_step


def test_an_older_copy_refuses_after_its_batches_were_pruned(store: Store, spec: StreamSpec) -> None:
    """Launches keep what they found, whatever retention removes."""
    checkpoint(spec.checkpoint, 8)
    launched(store, spec, "first", 100.0)
    keep_start(store, spec, "first", at=100.0)
    rmtree(spec.checkpoint)
    checkpoint(spec.checkpoint, 5)
    with pytest.raises(LaunchRefused, match="older copy"):
        look(store, spec)


def test_another_querys_checkpoint_refuses(store: Store, spec: StreamSpec) -> None:
    ran(store, spec, 7)
    checkpoint(spec.checkpoint, 9, ANOTHER)
    with pytest.raises(LaunchRefused, match=ANOTHER):
        look(store, spec)


def test_a_new_path_needs_a_new_output(store: Store, spec: StreamSpec) -> None:
    ran(store, spec, 7)
    entries(spec.sink.path, 8)
    moved = replace(spec, checkpoint=f"{spec.checkpoint}-2")
    with pytest.raises(LaunchRefused, match="batches up to 7"):
        look(store, moved)
    look(store, replace(moved, sink=ParquetSink(path=f"{spec.sink.path}-2")), "after")


def test_a_query_of_a_script_whose_checkpoint_is_gone_refuses(store: Store, spec: StreamSpec, tmp_path: Path) -> None:
    """And one whose checkpoint Spark made up for one run does not."""
    script = replace(spec, sink=SinkSpec(), source=type(spec.source)(path="x"))
    ran(store, script, 3, name="made_up", place="/tmp/temporary-77aa")
    look(store, script)
    ran(store, script, 3, name="left", place=str(tmp_path / "left"))
    with pytest.raises(LaunchRefused, match="gone or empty"):
        look(store, script, "after")


def test_to_begin_anew_is_recorded_and_allowed_for_one_launch(store: Store, spec: StreamSpec) -> None:
    """Restarts of that driver are not refused, even if it died before its query began; a later loss is."""
    ran(store, spec, 7)
    entries(spec.sink.path, 8)
    allow(store, spec)
    look(store, spec)
    assert newest_entry(open_path(str(spec.sink.path))) is None, "Spark would have skipped these batches"
    (kept,) = Path(str(spec.sink.path)).glob("_spark_metadata.*")
    assert len(list(kept.iterdir())) == 8
    event = next(event for event in history(store, spec.name, 0.0) if event.kind is EventKind.BEGAN_ANEW)
    assert event.who == "ann"
    assert "replayed input" in event.why
    assert "gone or empty" in event.why
    look(store, spec, "restarted", 210.0)
    checkpoint(spec.checkpoint, 3, ANOTHER)
    store.batches.upsert_logged(spec.name, ANOTHER, 2, 220.0, 221.0)
    store.queries.started(
        QueryRecord(
            stream=spec.name,
            name="",
            checkpoint=spec.checkpoint,
            trigger=TriggerSpec(),
            driver_id="next",
            query_id=ANOTHER,
            run_id="again",
            first_at=215.0,
            started_at=215.0,
        )
    )
    look(store, spec, "third", 230.0)
    rmtree(spec.checkpoint)
    with pytest.raises(LaunchRefused):
        look(store, spec, "fourth", 240.0)


def test_a_permission_that_was_not_needed_is_gone(store: Store, spec: StreamSpec) -> None:
    allow(store, spec)
    look(store, spec)
    state = store.stops.desired(spec.name)
    assert state is not None
    assert state.begin_anew is None


def test_an_older_checkpoint_begins_anew_after_its_last_batch(store: Store, spec: StreamSpec) -> None:
    checkpoint(spec.checkpoint, 5)
    entries(spec.sink.path, 8)
    ran(store, spec, 7)
    allow(store, spec)
    look(store, spec)
    assert newest_entry(open_path(str(spec.sink.path))) == 4
    look(store, spec, "restarted", 210.0)


def test_entries_that_only_a_compact_one_repeats_are_not_moved(spec: StreamSpec) -> None:
    entries(spec.sink.path, 3)
    folder = Path(str(spec.sink.path), "_spark_metadata")
    (folder / "9.compact").write_text("v1")
    output = open_path(str(spec.sink.path))
    with pytest.raises(CheckpointError, match="repeats"):
        set_aside(output, 5, 0.0)
    assert (folder / "9.compact").exists()
    set_aside(output, 2, 0.0)
    manifest = read_sink_manifest(output)
    assert manifest is not None
    assert manifest.newest == 2


def test_a_refusal_is_an_exit_that_no_restart_cures(store: Store, spec: StreamSpec, tmp_path: Path) -> None:
    record, lease = claim(store, tmp_path, spec, launched_by="test", ttl=30.0, now=1.0)
    error = LaunchRefused("gone", expected="a checkpoint", where="/cp", next_step="restore it")
    abandon(store, record, lease, error, 2.0)
    stored = store.drivers.get(record.driver_id)
    assert stored is not None
    assert stored.exit is not None
    assert not stored.exit.curable
    assert stored.exit.cause == "launch_refused"
    assert stored.exit.next_step == "restore it"
    decision = decide([stored], spec.restart, 3.0)
    assert isinstance(decision, GiveUp)
    assert decision.next_step == "restore it"


def test_a_fork_is_not_compared(store: Store, spec: StreamSpec) -> None:
    """It is made to fit a moment before, and its drill damages it on purpose."""
    entries(spec.sink.path, 8)
    with pytest.raises(LaunchRefused, match="has no batch yet"):
        look(store, spec)
    fork = replace(spec, name=fork_name(spec.name))
    look(store, fork)
    assert not store.drivers.events_of(fork.name, BEGAN_ANEW), "no permission was needed"


def test_what_cannot_be_read_refuses_nothing(store: Store, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver needs it too, and says better what is wrong."""
    monkeypatch.setattr("streamwarden.services.fleet.launch_check.PAUSE", 0.0)
    away = replace(spec, checkpoint="s3a://nowhere/checkpoint", storage=StorageSpec(connection="nowhere"))
    assert list(gather(store, away, {}, 200.0)) == []
    look(store, away)
    assert not store.drivers.events_of(spec.name, BEGAN_ANEW), "no permission was needed"
