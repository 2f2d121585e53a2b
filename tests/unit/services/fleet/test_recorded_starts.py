"""What the launcher keeps of the logs before a driver exists, and what a verification reads of it."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.driver_folder import write_document
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQuery, OutputKind
from streamwarden.services.fleet import recorded_starts
from streamwarden.services.fleet.recorded_starts import keep_start, starts_of
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import ScriptFork, SinkSpec, StorageSpec, StreamSpec
from streamwarden.verification.comparing.starts import Start


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return StreamSpec(
        name="flights",
        job="job.py",
        source=FilesSource(path=str(tmp_path / "input")),
        sink=ParquetSink(path=str(tmp_path / "output")),
        checkpoint=str(tmp_path / "checkpoint"),
    )


def launch(store: Store, spec: StreamSpec, driver: str, at: float) -> None:
    record = DriverRecord(
        driver_id=driver,
        stream=spec.name,
        checkpoint=spec.checkpoint,
        token=1,
        folder="",
        launched_by="test",
        launched_at=at,
    )
    store.drivers.launched(record)
    keep_start(store, spec, driver, at=at)


def write(folder: str, *names: str) -> None:
    for name in names:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")


def test_a_start_is_where_the_logs_stood_and_ends_with_its_driver(store: Store, spec: StreamSpec) -> None:
    launch(store, spec, "one", 1.0)
    store.drivers.exited("one", ExitRecord(kind=ExitKind.KILLED, ended_at=5.0))
    write(spec.checkpoint, "offsets/0", "offsets/1", "commits/0")
    write(str(spec.sink.path), "_spark_metadata/0", "_spark_metadata/1")
    launch(store, spec, "two", 6.0)
    assert starts_of(store, spec.name, spec.checkpoint) == (
        Start(at=1.0, planned=None, committed=None, ended=5.0),
        Start(at=6.0, planned=1, committed=0, sink=1),
    )


def test_a_start_on_another_checkpoint_explains_nothing_here(store: Store, spec: StreamSpec) -> None:
    launch(store, replace(spec, checkpoint=spec.checkpoint + "-new"), "one", 1.0)
    launch(store, replace(spec, name="other"), "two", 2.0)
    assert starts_of(store, spec.name, spec.checkpoint) == ()


def test_each_query_of_a_scripts_fork_has_its_own_starts(store: Store, spec: StreamSpec, tmp_path: Path) -> None:
    output = str(tmp_path / "fork")
    forked = replace(spec, sink=SinkSpec(), fork=ScriptFork(output=output))
    launch(store, forked, "one", 1.0)
    query = ForkQuery(
        name="sums",
        order=1,
        checkpoint=f"{spec.checkpoint}/sums",
        kind=OutputKind.FILES,
        output=f"{output}/sums",
        instead_of="sums",
        format="parquet",
    )
    Path(output, INDEX).mkdir(parents=True)
    write_document(Path(output, INDEX, "sums.json"), asdict(query))
    write(query.checkpoint, "offsets/0", "offsets/1", "commits/0")
    write(str(query.output), "_spark_metadata/0", "_spark_metadata/1")
    launch(store, forked, "two", 6.0)
    never, cut = starts_of(store, spec.name, spec.checkpoint, "sums")
    assert (never.planned, never.committed, never.sink) == (None, None, None)
    assert (cut.planned, cut.committed, cut.sink) == (1, 0, 1)
    assert cut.is_skip


def test_a_driver_whose_logs_cannot_be_read_is_launched_and_its_start_is_known_without_them(
    store: Store, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_starts, "PAUSE", 0.0)
    away = replace(spec, checkpoint="s3a://nowhere/checkpoint", storage=StorageSpec(connection="nowhere"))
    with pytest.raises(StreamwardenError, match="nowhere"):
        recorded_starts.read_logs(away)
    launch(store, away, "one", 1.0)
    store.drivers.exited("one", ExitRecord(kind=ExitKind.KILLED, ended_at=5.0))
    unknown = Start(at=1.0, planned=None, committed=None, ended=5.0, logs_known=False)
    assert starts_of(store, spec.name, away.checkpoint) == (unknown,)


def test_logs_that_cannot_be_read_for_a_moment_are_read_again(
    store: Store, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_starts, "PAUSE", 0.0)
    failures = [OSError("503 Slow Down"), CheckpointError("it vanished", expected="", where="", next_step="")]
    reading = recorded_starts.read_logs

    def failing(spec: StreamSpec) -> dict[str, str]:
        if failures:
            raise failures.pop()
        return reading(spec)

    monkeypatch.setattr(recorded_starts, "read_logs", failing)
    launch(store, spec, "one", 1.0)
    assert starts_of(store, spec.name, spec.checkpoint) == (Start(at=1.0, planned=None, committed=None),)
