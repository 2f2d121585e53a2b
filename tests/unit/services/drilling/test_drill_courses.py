"""How far a fork's batch has come, by its files and by what its drivers recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.phases import BatchPhase
from streamwarden.drills.records.types import ForkView
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.driver_folder import write_document
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQuery, OutputKind
from streamwarden.lifecycle.handovers import Handover, write_handovers
from streamwarden.lifecycle.script_queries import WritingFunction
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import ForeachBatch, ScriptFork, StreamSpec

QUERY = "2a4bb4a6-7a5c-4d2e-9d6e-3f2f5f1e0a11"
T0 = 1_700_000_000.0


class Fork:
    """The files of a fork whose drivers were launched at T0, T0 + 100, …"""

    def __init__(self, root: Path, store: Store, script: ScriptFork | None = None) -> None:
        self.root, self.store = root, store
        self.checkpoint = root / "checkpoint"
        self.output = root / "output"
        self.output.mkdir(parents=True)
        self.spec = StreamSpec(
            name="s__fork",
            job="j.py",
            checkpoint=str(self.checkpoint),
            fork=script,
            **({} if script else {"sink": ParquetSink(path=str(self.output))}),  # type: ignore[arg-type]
        )

    @property
    def view(self) -> ForkView:
        return ForkView(
            stream=self.spec.name,
            origin="s",
            checkpoint=self.spec.checkpoint,
            output=str(self.output),
            batch=None,
            unseen=0,
            batches_left=None,
            input_digest="",
            spec=self.spec,
        )

    def put(self, file: Path, at: float, content: bytes = b"v1\n{}") -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (at, at))

    def batch(self, number: int, planned: float, committed: float | None = None, query: str = "") -> None:
        place = self.checkpoint / query
        self.put(place / "metadata", T0, json.dumps({"id": QUERY}).encode())
        self.put(place / "offsets" / str(number), planned)
        if committed is not None:
            self.put(place / "commits" / str(number), committed)

    def driver(self, launched: float, *calls: Handover) -> None:
        name = f"d{launched:.0f}"
        folder = self.root / name
        folder.mkdir()
        record = DriverRecord(
            driver_id=name,
            stream=self.spec.name,
            checkpoint=self.spec.checkpoint,
            token=1,
            folder=str(folder),
            launched_by="drill",
            launched_at=launched,
        )
        self.store.drivers.launched(record)
        write_handovers(folder, calls)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path}/store.db") as opened:
        opened.migrate()
        yield opened


def test_a_function_shows_the_phases_of_its_batches(tmp_path: Path, store: Store) -> None:
    fork = Fork(tmp_path / "f", store)
    fork.batch(0, T0 + 10, T0 + 12)
    fork.batch(1, T0 + 12, T0 + 14)
    fork.batch(2, T0 + 14)
    ended = Handover(query_id=QUERY, batch=1, began_at=T0 + 12.5, wrote_at=T0 + 13.0, ended_at=T0 + 13.9)
    running = Handover(query_id=QUERY, batch=2, began_at=T0 + 14.5)
    fork.driver(T0, ended, running)
    reader = ForkCheckpoint(store)
    done = reader.course(fork.view, 1)
    assert (done.planned_at, done.writing_at, done.written_at) == (T0 + 12, T0 + 12.5, T0 + 13.9)
    assert (done.function, done.wrote, done.warm, done.phase) == (True, True, True, None)
    now = reader.course(fork.view, 2)
    assert (now.phase, now.wrote) == (BatchPhase.WRITING, False)
    assert not reader.course(fork.view, 0).warm, "the first batch of a driver"
    assert reader.not_exercised(fork.view) == [NotExercised(what="the function that writes the batches")]


def test_several_batches_are_read_from_one_listing_of_each_log(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store each batch would cost some requests, and the one to be struck would be over meanwhile."""
    fork = Fork(tmp_path / "f", store)
    for batch in range(3):
        fork.batch(batch, T0 + 10 + 2 * batch, T0 + 12 + 2 * batch)
    fork.batch(3, T0 + 16)
    fork.driver(T0, Handover(query_id=QUERY, batch=1, began_at=T0 + 12.5, wrote_at=T0 + 13.0, ended_at=T0 + 13.9))
    reader = ForkCheckpoint(store)
    single = [reader.course(fork.view, batch) for batch in range(5)]
    monkeypatch.setattr("streamwarden.services.drilling.checkpoint.written_at", None)
    assert reader.courses(fork.view, range(5)) == single
    assert [course.committed_at for course in single] == [T0 + 12, T0 + 14, T0 + 16, None, None]


def test_a_manifest_shows_them_too_and_without_either_nothing_does(tmp_path: Path, store: Store) -> None:
    fork = Fork(tmp_path / "f", store)
    fork.driver(T0)
    fork.batch(0, T0 + 10)
    reader = ForkCheckpoint(store)
    assert reader.course(fork.view, 0).phase is BatchPhase.BEFORE
    fork.put(fork.output / "part-0.json", T0 + 11)
    assert (reader.course(fork.view, 0).phase, reader.course(fork.view, 0).wrote) == (BatchPhase.WRITING, True)
    fork.put(fork.output / "_spark_metadata/0", T0 + 12)
    assert reader.course(fork.view, 0).phase is BatchPhase.WRITTEN
    assert reader.not_exercised(fork.view) == [], "Spark's file sink is no function"
    blind = Fork(tmp_path / "g", store, ScriptFork(output=str(tmp_path / "g/output")))
    blind.batch(0, T0 + 10)
    assert reader.course(blind.view, 0).phase is None


def test_a_batch_that_ran_again_after_it_was_written_exercised_the_function(tmp_path: Path, store: Store) -> None:
    fork = Fork(tmp_path / "f", store)
    fork.batch(0, T0 + 10, T0 + 12)
    fork.batch(1, T0 + 12, T0 + 150)
    fork.driver(T0, Handover(query_id=QUERY, batch=1, began_at=T0 + 13, ended_at=T0 + 14))
    fork.driver(T0 + 100, Handover(query_id=QUERY, batch=1, began_at=T0 + 120, ended_at=T0 + 121))
    reader = ForkCheckpoint(store)
    assert reader.not_exercised(fork.view) == []
    assert not reader.course(fork.view, 1).warm, "another driver planned it"


WRITES = """
def by_id(rows, number):
    rows.write.mode("overwrite").parquet(f"out/{number}")


def load(rows, number):
    rows.write.mode("append").parquet("out")
"""
BY_ID, LOAD = "the function by_id() (job.py:2)", "the function load() (job.py:6)"


@pytest.mark.parametrize(
    ("runs", "given", "unknown"),
    [
        (ForeachBatch.RUN, ("load", 6), []),
        (ForeachBatch.CAPTURE, None, [NotExercised(what="the function f", called=False)]),
        (ForeachBatch.CAPTURE, ("by_id", 2), [NotExercised(what=BY_ID, called=False)]),
        (ForeachBatch.CAPTURE, ("load", 6), [NotExercised(what=LOAD, called=False, appends=True)]),
    ],
)
def test_a_capture_in_place_of_a_function_exercises_nothing(
    tmp_path: Path,
    store: Store,
    runs: ForeachBatch,
    given: tuple[str, int] | None,
    unknown: list[NotExercised],
) -> None:
    root = tmp_path / "f"
    (tmp_path / "job.py").write_text(WRITES)
    function = given and WritingFunction(name=given[0], file=str(tmp_path / "job.py"), line=given[1])
    fork = Fork(root, store, ScriptFork(output=str(root / "output"), foreach_batch=runs))
    for order, (name, kind) in enumerate((("files", OutputKind.FILES), ("alerts", OutputKind.CAPTURE)), 1):
        query = ForkQuery(
            name=name,
            order=order,
            checkpoint=f"{fork.checkpoint}/{name}",
            kind=kind,
            output=f"{fork.output}/{name}",
            instead_of="the function f",
            format="foreachbatch" if kind is OutputKind.CAPTURE else "parquet",
            function=function,
        )
        (fork.output / INDEX).mkdir(exist_ok=True)
        write_document(fork.output / INDEX / f"{name}.json", asdict(query))
    fork.batch(1, T0 + 12, T0 + 150, query="alerts")
    fork.driver(T0, Handover(query_id=QUERY, batch=1, began_at=T0 + 13, ended_at=T0 + 14))
    fork.driver(T0 + 100, Handover(query_id=QUERY, batch=1, began_at=T0 + 120, ended_at=T0 + 121))
    reader = ForkCheckpoint(store)
    assert reader.course(fork.view, 1).planned_at == T0 + 12, "the captured query is the one that a fault aims at"
    assert reader.not_exercised(fork.view) == unknown
