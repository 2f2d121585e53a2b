"""The driver's connection to its store: what a store that is locked, gone or replaced does to it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld, LeaseLost
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Lease
from streamwarden.services.fleet.exits.backfill import load_spill
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder
from streamwarden.spark.driver import store_link
from streamwarden.spark.driver.query_registry import QueryRegistry
from streamwarden.spark.driver.sessions import StartedQuery
from streamwarden.spark.internals.listener import QueryProgressed, QueryStarted, QueryTerminated
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.spark.drivers import until

BUSY = 0.6
"""Seconds that the link waits for a locked store; longer than what `emit` may take."""

QUERY = "8a6e6b35-0c1b-4a52-a2a8-54c4d0a5f1aa"


def report(batch: int, query: str = QUERY) -> QueryProgressed:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return QueryProgressed(
        json.dumps(
            {
                "id": query,
                "runId": "run",
                "batchId": batch,
                "timestamp": stamp,
                "numInputRows": 7,
                "batchDuration": 5,
                "durationMs": {"addBatch": 3, "walCommit": 1, "triggerExecution": 5},
                "stateOperators": [],
                "sources": [],
                "sink": {"description": "x"},
            }
        )
    )


class Desk:
    """A store on disk, a driver's folder, and the link between them."""

    def __init__(self, root: Path, url: str) -> None:
        self.database = Path(url.removeprefix("sqlite:///"))
        self.url = url
        self.store = Store(url)
        self.folder = root / "drivers" / "counts" / "counts-1"
        self.folder.mkdir(parents=True)
        self.checkpoint = root / "cp"
        self.lease: Lease = self.store.leases.acquire(
            str(self.checkpoint), stream="counts", holder="counts-1", ttl=30, now=time.time()
        )
        self.store.drivers.launched(
            DriverRecord(
                driver_id="counts-1",
                stream="counts",
                checkpoint=str(self.checkpoint),
                token=self.lease.token,
                folder=str(self.folder),
                launched_by="test",
                launched_at=time.time(),
            )
        )
        own = processes.identity(1) or ProcessIdentity("h", 1, 1)
        spec = StreamSpec(name="counts", job="/j.py", checkpoint=str(self.checkpoint))
        self.registry = QueryRegistry(spec, "counts-1")
        self.link = store_link.StoreLink(
            self.url, stream="counts", folder=self.folder, lease=self.lease, process=own, registry=self.registry
        )

    def reported(self) -> list[int]:
        return [batch.batch_id for batch in self.store.batches.window("counts") if batch.progress]


@pytest.fixture
def desk(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(store_link, "Store", partial(Store, busy_timeout=BUSY))
    made = Desk(tmp_path, store_url)
    yield made
    made.link.close()
    made.store.close()


def test_reports_reach_the_store_and_the_spill_stays_empty(desk: Desk) -> None:
    desk.link.bind()
    desk.link.start()
    desk.link.emit(QueryStarted(QUERY, "run"))
    for batch in range(3):
        desk.link.emit(report(batch))
    until("the reports", lambda: desk.reported() == [0, 1, 2])
    record = until("the start", lambda: (r := desk.store.drivers.get("counts-1")) and r.query_id and r)
    assert (record.query_id, record.run_id) == (QUERY, "run")
    assert record.process is not None
    assert not (desk.folder / files.SPILL).exists()


def test_while_the_store_is_locked_reports_are_spilled_at_once_and_loaded_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_link, "RETRY_EVERY", 0.2)
    desk.link.bind()
    desk.link.start()
    lock = sqlite3.connect(desk.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    for batch in range(200):
        desk.link.emit(report(batch))
    assert time.monotonic() - began < BUSY - 0.1, "emit never waits"
    until("the spill", lambda: len(list(files.read_lines(desk.folder / files.SPILL))) == 200, timeout=20)
    assert desk.link.lost is None
    lock.rollback()
    lock.close()
    until("the reports", lambda: desk.reported() == list(range(200)), timeout=20)
    until("the end of the spill", lambda: not (desk.folder / files.SPILL).exists())


def test_a_lease_is_not_renewed_while_the_jvm_does_not_answer(desk: Desk) -> None:
    """All else goes on: what the JVM said before still reaches the store."""
    desk.link.bind()
    desk.link._beats = lambda: False
    desk.link._renew_at = 0.0
    before = desk.store.leases.current(str(desk.checkpoint))
    desk.link.start()
    desk.link.emit(report(0))
    until("the report", lambda: desk.reported() == [0])
    assert desk.store.leases.current(str(desk.checkpoint)) == before
    desk.link._beats = lambda: True
    until("a renewal", lambda: desk.store.leases.current(str(desk.checkpoint)) != before)


def test_a_query_that_is_discovered_is_claimed_and_renewed_with_the_rest(desk: Desk) -> None:
    desk.link.bind()
    desk.link.start()
    first = desk.link.claim("/cp/second")
    assert first.checkpoints == tuple(sorted((str(desk.checkpoint), "/cp/second")))
    desk.store.leases.acquire("/cp/taken", stream="other", holder="other-1", ttl=30, now=time.time())
    with pytest.raises(LeaseHeld, match="other-1"):
        desk.link.claim("/cp/taken")
    desk.link._renew_at = 0.0
    renewed = until("a renewal", lambda: (now := desk.store.leases.current("/cp/second")) != first and now)
    assert renewed.resources == first.resources


def wrong(batch: int, **fields: object) -> QueryProgressed:
    """A report with values of another type than Spark's."""
    return QueryProgressed(json.dumps(json.loads(report(batch).text) | fields))


def test_a_report_of_wrong_types_is_kept_and_the_next_one_is_stored(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.link.bind()
    desk.link.start()
    for event in (wrong(0, sources="none"), wrong(1, durationMs=[5]), QueryProgressed("[" * 100_000), report(2)):
        desk.link.emit(event)
    until("the report", lambda: desk.reported() == [2])
    kept = list(files.read_lines(desk.folder / files.UNREADABLE))
    assert [json.loads(each["report"])["batchId"] for each in kept[:2]] == [0, 1]
    assert "sources, which is not a list of objects" in kept[0]["error"]
    assert kept[2]["report"].startswith("[[[")
    assert capsys.readouterr().err.count("could not be read") == 1, "not once for each"


def test_a_spill_with_reports_of_wrong_types_is_loaded_without_them(desk: Desk) -> None:
    for batch, fields in enumerate(({"batchId": {}}, {"timestamp": "yesterday"}, {})):
        files.append_line(desk.folder / files.SPILL, json.loads(wrong(batch, **fields).text))
    assert load_spill(desk.folder, lambda query: "stream", desk.store) == 1
    assert not (desk.folder / files.SPILL).exists()
    assert len(list(files.read_lines(desk.folder / files.UNREADABLE))) == 2


def test_an_event_that_cannot_be_handled_does_not_take_the_ones_after_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = desk.link._keep
    monkeypatch.setattr(desk.link, "_keep", lambda progress: keep(progress) if progress.batch_id else 1 / 0)
    desk.link.bind()
    for batch in range(3):
        desk.link.emit(report(batch))
    desk.link.start()
    until("the other reports", lambda: len(desk.reported()) == 2)
    assert desk.reported() == [1, 2]


def test_a_store_that_is_gone_at_the_end_leaves_a_spill(desk: Desk) -> None:
    desk.link.bind()
    desk.link.start()
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (desk.database.parent / name).unlink(missing_ok=True)
    desk.link.emit(QueryStarted(QUERY, "run"))
    desk.link.emit(report(0))
    desk.link.close()
    assert [line["batchId"] for line in files.read_lines(desk.folder / files.SPILL)] == [0]
    assert [event.detail["query_id"] for event in files.read_events(desk.folder)] == [QUERY]


def test_an_event_after_the_last_word_to_the_store_is_in_the_journal(desk: Desk) -> None:
    """The quarantine ends after the link; whoever records the driver's end loads the journal."""
    desk.link.bind()
    desk.link.start()
    desk.link.close()
    desk.link.event(files.QUARANTINE_GAP, first="3", last="3")
    (event,) = files.read_events(desk.folder)
    assert (event.kind, event.detail) == (files.QUARANTINE_GAP, {"first": "3", "last": "3"})


def test_what_is_queued_at_the_end_is_not_lost(desk: Desk) -> None:
    desk.link.bind()
    for batch in range(50):
        desk.link.emit(report(batch))
    desk.link.start()
    desk.link.close()
    assert desk.reported() == list(range(50))


def test_a_lease_that_was_lost_before_the_start_is_not_bound(desk: Desk) -> None:
    blind = Store(desk.url, alive=lambda process: False)
    blind.leases.acquire(str(desk.checkpoint), stream="counts", holder="other", ttl=30, now=time.time() + 60)
    blind.close()
    with pytest.raises(LeaseLost, match="other"):
        desk.link.bind()


def test_a_lease_that_is_lost_on_the_way_is_seen(desk: Desk) -> None:
    desk.link.bind()
    desk.link._renew_at = 0.0  # due now
    blind = Store(desk.url, alive=lambda process: False)
    blind.leases.acquire(str(desk.checkpoint), stream="counts", holder="other", ttl=30, now=time.time())
    blind.close()
    desk.link.start()
    lost = until("the loss", lambda: desk.link.lost)
    assert "other" in str(lost)


def test_a_driver_that_fails_asks_at_once_whether_it_was_replaced(desk: Desk) -> None:
    """Between two renewals, as one that was paused meanwhile."""
    desk.link.bind()
    assert desk.link.lost_by_now() is None
    with Store(desk.url, alive=lambda process: False) as blind:
        blind.leases.acquire(str(desk.checkpoint), stream="counts", holder="other", ttl=30, now=time.time())
    assert "other" in str(desk.link.lost_by_now())


def test_measurements_wait_for_the_store(desk: Desk) -> None:
    desk.link.bind()
    lock = sqlite3.connect(desk.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    desk.link.start()
    desk.link.measure(
        Measurement(stream="counts", name="resident_bytes", at=time.time() + n, value=n, unit="bytes", source="driver")
        for n in range(3)
    )
    lock.rollback()
    lock.close()
    kept = until("the measurements", lambda: desk.store.measurements.recent("counts", 0), timeout=20)
    assert [each.value for each in kept] == [0, 1, 2]


def test_batches_whose_report_a_kill_took_are_filled_in_from_the_logs(desk: Desk) -> None:
    for log in ("offsets", "commits"):
        (desk.checkpoint / log).mkdir(parents=True)
        for batch in range(3):
            (desk.checkpoint / log / str(batch)).write_text("v1\n{}")
    desk.link.bind()
    desk.link.start()
    desk.link.emit(report(1))
    desk.link.emit(QueryStarted(QUERY, "run"))
    found = until("the batches", lambda: (w := desk.store.batches.window("counts")) and len(w) == 3 and w)
    assert [batch.progress is not None for batch in found] == [False, True, False]
    assert all(batch.planned_at and batch.committed_at for batch in found)


OTHER = "0b1c2d3e-0000-4000-8000-000000000000"
NAMES = {QUERY: "first", OTHER: None}


def start(desk: Desk, registry: QueryRegistry, query_id: str, checkpoint: Path) -> str:
    """A query starts as the gate lets it; returns under which name it is kept."""
    found = StartedQuery(
        query_id=query_id,
        run_id=f"run {query_id}",
        given=NAMES[query_id],
        checkpoint=str(checkpoint),
        trigger=TriggerSpec(),
    )
    admission = registry.admit(found)
    registry.enter(admission)
    desk.link.admitted(admission)
    desk.link.emit(QueryStarted(query_id, found.run_id))
    return admission.record.identity


@pytest.fixture
def registry(desk: Desk) -> QueryRegistry:
    """The names of the driver's queries, known to its link."""
    return desk.registry


def kept(desk: Desk, name: str) -> list[int]:
    return [batch.batch_id for batch in desk.store.batches.window(name) if batch.progress]


def test_the_first_query_gets_a_name_when_a_second_one_comes_unforeseen(desk: Desk, registry: QueryRegistry) -> None:
    """What was kept under the stream's name goes with it, and each report goes where its query's batches are."""
    desk.link.bind()
    desk.link.start()
    assert start(desk, registry, QUERY, desk.checkpoint) == "counts"
    desk.link.emit(report(0))
    until("the first report", lambda: kept(desk, "counts") == [0])
    assert start(desk, registry, OTHER, desk.checkpoint.parent / "second") == "counts/second"
    desk.link.emit(report(1))
    desk.link.emit(report(0, query=OTHER))
    until("the reports", lambda: (kept(desk, "counts/first"), kept(desk, "counts/second")) == ([0, 1], [0]) or None)
    until("both names", lambda: [each.name for each in desk.store.queries.of("counts")] == ["first", "second"])
    assert kept(desk, "counts") == []


def test_reports_that_were_spilled_are_loaded_under_the_names_of_their_queries(
    desk: Desk, registry: QueryRegistry
) -> None:
    """The driver dies with the store away; the process that records its end loads them from its folder."""
    start(desk, registry, QUERY, desk.checkpoint)
    start(desk, registry, OTHER, desk.checkpoint.parent / "second")
    for query in (QUERY, OTHER):
        files.append_line(desk.folder / files.SPILL, json.loads(report(4, query=query).text))
    record = desk.store.drivers.get("counts-1")
    assert record is not None
    ExitRecorder(desk.store, time.time).record_exit(record)
    assert (kept(desk, "counts/first"), kept(desk, "counts/second"), kept(desk, "counts")) == ([4], [4], [])
    assert [each.name for each in desk.store.queries.of("counts")] == ["first", "second"]


def test_only_the_newest_run_of_a_query_reports_its_end(desk: Desk) -> None:
    """A script that retries a run which failed, and then ends well, did not fail; and it may retry for months."""
    for run in ("run 1", "run 2"):
        desk.link.emit(QueryStarted(QUERY, run))
        desk.link.emit(QueryTerminated(QUERY, run, "the database is away", None))
    desk.link.emit(QueryStarted(QUERY, "run 3"))
    desk.link.emit(QueryStarted(OTHER, "run of the other"))
    assert (desk.link.runs, desk.link.terminated) == ({"run 3", "run of the other"}, {})
    desk.link.emit(QueryTerminated(QUERY, "run 2", "late", None))
    assert desk.link.terminated == {}, "the end of an older run comes late"
    desk.link.emit(QueryTerminated(QUERY, "run 3", None, None))
    assert [end.error for end in desk.link.terminated.values()] == [None]
