"""One stream's drivers, from the first start to a stop, with every way to lose one in between."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ProcessIdentity
from streamwarden.lifecycle.supervision.heartbeat import JVM_SILENT, SHORTEST_BOUND, silent_since
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.starting import Started
from streamwarden.stream.spec import RestartPolicy, StreamSpec
from support.spark.drivers import COUNTS, Project, counted, expected_counts, project, until
from support.spark.supervision import supervised

pytestmark = pytest.mark.spark

MALFORMED = (
    '{"id": 3, "key": "zwei", "at": "2026-01-01T00:00:00Z"}',
    "{not json",
    '{"id": 4, "key": 1, "at": "2026-01-01T00:00:00Z", "note": 5, "id": "x"}',
)
LACKING = '{"id":5,"key":1}'


class Life:
    """The shared stream; each test leaves it in a state that the next one names in its docstring."""

    def __init__(self, made: Project) -> None:
        self.project = made
        self.spec: StreamSpec = made.spec("counts", COUNTS)
        options = self.spec.spark.conf["spark.driver.extraJavaOptions"]
        secret = {
            "spark.hadoop.fs.s3a.secret.key": "hunter2-secret",
            "spark.driver.extraJavaOptions": f"{options} -Djavax.net.ssl.trustStorePassword=hunter2-option",
        }
        kept = {"spark.sql.streaming.minBatchesToRetain": "2000"}  # a test counts what is in the folder
        self.spec.spark.conf.update(secret | kept)
        self.store, self.fleet = made.store, made.fleet

    def start(self) -> DriverRecord:
        driver_id = self.project.start(self.spec)
        return until("the query", lambda: (r := self.store.drivers.get(driver_id)) and r.run_id and r)

    def process(self, record: DriverRecord) -> ProcessIdentity:
        found = files.read_process(Path(record.folder))
        assert found is not None
        return found

    def reported(self) -> set[int]:
        return {batch.batch_id for batch in self.store.batches.window("counts") if batch.progress is not None}

    def seconds_of(self, batch: int) -> float:
        """From plan to commit, by the checkpoint's own files."""
        checkpoint = Path(self.spec.checkpoint)
        planned, committed = (checkpoint / log / str(batch) for log in ("offsets", "commits"))
        return committed.stat().st_mtime - planned.stat().st_mtime


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with project(tmp_path_factory.mktemp("life")) as made:
        yield Life(made)


def test_two_starts_at_once_give_one_driver(life: Life) -> None:
    life.project.publish(1, extra=(*MALFORMED, LACKING))
    started: list[Started] = []

    def start() -> None:
        started.append(life.fleet.start(life.spec, launched_by="racer"))

    racers = [threading.Thread(target=start) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(each.reattached for each in started) == [False, True, True, True]
    assert len({each.record.driver_id for each in started}) == 1
    assert len(list((life.project.data / "drivers" / "counts").iterdir())) == 1


def test_a_start_while_the_driver_lives_reattaches(life: Life) -> None:
    life.project.await_batches(life.spec, 1)
    again = life.fleet.start(life.spec, launched_by="a retried task")
    assert again.reattached
    assert "reattached" in [event.kind for event in life.store.drivers.events(again.record.driver_id)]


def test_neither_settings_nor_secrets_show_in_a_process_list(life: Life) -> None:
    record = life.store.drivers.latest("counts")
    assert record is not None
    commands = processes.commands()
    shown = [" ".join(commands.get(pid, ())) for pid in processes.tree(life.process(record).pid)]
    assert any("driver.py" in arguments for arguments in shown)
    for arguments in shown:
        assert "hunter2" not in arguments
        assert life.project.url not in arguments
    assert (Path(record.folder) / files.PROPERTIES).stat().st_mode & 0o077 == 0
    assert "hunter2" not in (Path(record.folder) / files.SPEC).read_text()
    assert Path(record.folder).stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def unresponsive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Future[DriverRecord]]]:
    """A stream of its own, which is waited for most of the time: it runs beside the test of the locked store."""
    with project(tmp_path_factory.mktemp("unresponsive")) as made, ThreadPoolExecutor(1) as beside:
        yield made, beside.submit(its_jvm_stands_still, made)


@pytest.mark.usefixtures("unresponsive")
def test_a_locked_store_costs_no_batch_and_no_progress(life: Life) -> None:
    """Another program locks the store until the driver's lease has expired; batches go on at their pace;
    afterwards no report is missing."""
    life.project.publish(2)
    life.project.await_batches(life.spec, 3)
    until("their reports", lambda: len(life.reported()) >= 3)
    lock = sqlite3.connect(life.project.data / "streamwarden.db", isolation_level=None, timeout=10)
    lock.execute("BEGIN IMMEDIATE")
    before = life.project.committed(life.spec)
    locked_at = time.monotonic()
    try:
        while time.monotonic() - locked_at < LEASE_TTL + 5:
            committed = life.project.committed(life.spec)
            life.project.publish(1)
            until("a batch", lambda n=committed: life.project.committed(life.spec) > n)  # type: ignore[misc]
            time.sleep(1.0)  # the pace of the input, not a wait for anything
        during = life.project.committed(life.spec) - before
        record = life.store.drivers.latest("counts")
        assert record is not None
        assert (Path(record.folder) / files.SPILL).exists()
    finally:
        lock.rollback()
        lock.close()
    assert during >= 5
    committed = life.project.committed(life.spec)
    until("every report", lambda: life.reported() >= set(range(committed)))
    until("the end of the spill", lambda: not (Path(record.folder) / files.SPILL).exists())
    until("its line", lambda: "reports loaded" in life.project.fleet.log_path(record.driver_id).read_text())
    calm = [life.seconds_of(batch) for batch in range(1, before)]
    stormy = [life.seconds_of(batch) for batch in range(before, before + during)]
    # A batch that waited for the store would take its busy timeout, two seconds, longer.
    assert statistics.median(stormy) < statistics.median(calm) + 1.5, (calm, stormy)


def test_an_unresponsive_jvm_is_detected_killed_and_restarted_and_no_row_is_lost(
    unresponsive: tuple[Project, Future[DriverRecord]],
) -> None:
    """Its Python half is alive: the stream must not count as running."""
    made, waited_for = unresponsive
    frozen = waited_for.result()
    ended = made.store.drivers.get(frozen.driver_id)
    assert ended is not None
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.signal, ended.exit.error_class) == (ExitKind.KILLED, 9, "JvmUnresponsive")
    assert "its supervisor process killed it" in ended.exit.message
    events = [event.kind for event in made.store.drivers.events(frozen.driver_id)]
    assert events.index(JVM_SILENT) < events.index("signal_sent")
    assert counted(made.spec("counts", COUNTS)) == expected_counts(3)


def its_jvm_stands_still(made: Project) -> DriverRecord:
    """1. A supervised stream commits. 2. SIGSTOP to its JVM alone. 3. The lease is kept while the silence may be a
    pause, and the driver says that it is silent. 4. Past the bound the supervisor process kills it, and the record says
    why. 5. The supervisor starts the next driver. Returns the driver that was killed."""
    spec = made.spec("counts", COUNTS, restart=RestartPolicy(initial=0.2, unresponsive_after=SHORTEST_BOUND))
    made.publish(2)
    with supervised(made, spec):
        frozen = until("the first query", lambda: _running(made, None))
        made.await_batches(spec, 2)
        process = files.read_process(Path(frozen.folder))
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        made.publish(1)
        since = until("word of the silence", lambda: silent_since(made.store.drivers.events(frozen.driver_id)))
        assert abs(time.time() - since) < SHORTEST_BOUND + 5
        assert made.fleet.observe(frozen.driver_id).alive, "the silence may be a pause"
        heir = until("the next driver's query", lambda: _running(made, frozen))
        made.publish(1)
        until("the closed windows", lambda: sum(counted(spec).values()) >= 3 * 20, poll=0.2)
    assert made.fleet.observe(heir.driver_id).alive
    return frozen


def _running(made: Project, before: DriverRecord | None) -> DriverRecord | None:
    """The newest driver, if its query runs and it is not `before`."""
    latest = made.store.drivers.latest("counts")
    if latest is None or latest.run_id is None or (before is not None and latest.driver_id == before.driver_id):
        return None
    return latest


def test_malformed_rows_are_counted_and_kept_aside_with_reason_and_file(life: Life) -> None:
    first = next(b for b in life.store.batches.window("counts") if b.batch_id == 0)
    assert first.progress is not None
    assert first.progress.observed_metrics["input"] == {"read": 24, "malformed": 4, "empty": 0}
    root = Path(life.spec.quarantine or "")
    until("the quarantine", lambda: list(root.glob("query=*/batch=0/_SUCCESS")))
    rows = [json.loads(line) for path in root.glob("query=*/batch=0/*.json") for line in path.read_text().splitlines()]
    reasons = {row.get("raw", row["parsed"]): row["reason"] for row in rows}
    assert reasons.keys() == {*MALFORMED, LACKING}
    assert len(rows) == len(reasons)
    assert reasons[LACKING] == "lacks at"
    assert reasons[MALFORMED[0]] == "does not fit the schema: key is not of type int: zwei"
    assert reasons[MALFORMED[1]] == "not a JSON object"
    assert {Path(row["file"]).name for row in rows} == {"000000.json"}
    lines = (life.project.input / "000000.json").read_text().splitlines()
    assert [lines[row["number"] - 1] for row in rows] == [row.get("raw", row["parsed"]) for row in rows]
    assert [path.name for path in root.glob("query=*/*")] == ["batch=0"]


def test_memory_and_state_are_measured(life: Life) -> None:
    found = until(
        "measurements",
        lambda: (
            (names := {m.name: m.value for m in life.store.measurements.recent("counts", 0)})
            and "state_dir_bytes" in names
            and names
        ),
    )
    assert 100e6 < found["resident_bytes"] < 3e9
    assert found["state_dir_bytes"] > 100


def test_a_stop_ends_at_a_batch_boundary(life: Life) -> None:
    life.project.publish(5)  # batches are running back to back
    seen = life.fleet.stop("counts", requested_by="ann", reason="deploy")
    assert seen is not None
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.exit_code, seen.exit.message) == (ExitKind.STOPPED, 0, "stopped by ann: deploy")
    position = log_position(open_path(life.spec.checkpoint))
    assert seen.exit.cut_batch == (position.gap > 0)
    assert position.gap == 0
    lease = life.store.leases.current(life.spec.checkpoint)
    assert lease is not None
    assert lease.released_at is not None
    assert not (Path(seen.record.folder) / files.TEMPORARY).exists()
    until("nothing left", lambda: not life.project.living())


def test_a_stop_of_a_stream_that_does_not_run_is_no_stop(life: Life) -> None:
    assert life.fleet.request_stop("counts", requested_by="ann", reason="again") is None


def test_a_killed_driver_is_noticed_at_once_and_its_batches_are_filled_in(life: Life) -> None:
    """SIGKILL to JVM and Python: the stored reports may be short of the last batches, the store knows them anyway."""
    record = life.start()
    life.project.publish(2)
    life.project.await_batches(life.spec, life.project.committed(life.spec) + 1)
    assert life.fleet.kill(record.driver_id)
    killed_at = time.monotonic()
    until("the end", lambda: not life.fleet.observe(record.driver_id).alive, poll=0.05)
    assert time.monotonic() - killed_at <= 6.0, "2 s, where the machine does nothing else"
    seen = life.fleet.observe(record.driver_id)
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.signal, seen.exit.curable) == (ExitKind.KILLED, 9, True)
    position = log_position(open_path(life.spec.checkpoint))
    assert position.query_id is not None
    assert position.committed is not None
    assert life.store.batches.missing("counts", position.query_id, position.committed) == ()
    until("nothing left", lambda: not life.project.living())


def test_a_driver_without_its_python_half_ends_as_killed(life: Life) -> None:
    record = life.start()
    jvm, commands = life.process(record).pid, processes.commands()
    python = [pid for pid in processes.tree(jvm) if pid != jvm and "driver.py" in " ".join(commands.get(pid, ()))]
    os.kill(python[0], signal.SIGKILL)
    ended = life.project.await_end(record.driver_id)
    assert (ended.kind, ended.signal) == (ExitKind.KILLED, 9)
    until("nothing left", lambda: not life.project.living())


def test_a_driver_that_was_replaced_stops_by_itself(life: Life) -> None:
    """Its supervisor process is killed too: the driver alone keeps the lease."""
    record = life.start()
    guard = files.read_document(Path(record.folder) / files.SUPERVISOR)
    assert guard is not None
    os.kill(guard["pid"], signal.SIGKILL)
    blind = Store(life.project.url, alive=lambda process: False)
    taken = blind.leases.acquire(life.spec.checkpoint, stream="counts", holder="usurper", ttl=1, now=time.time())
    ended = life.project.await_end(record.driver_id)
    assert (ended.kind, ended.error_class) == (ExitKind.FENCED, "LeaseLost")
    assert "usurper" in ended.message
    blind.leases.release(taken, now=time.time())
    blind.close()
    until("nothing left", lambda: not life.project.living())


def test_the_next_driver_goes_on_and_the_output_has_each_row_once(life: Life) -> None:
    """After a stop, two kills and a fencing, each window holds its rows once. The newest file's are still open."""
    life.fleet.set_running("counts", "ann", "deployed")
    record = life.start()
    life.project.publish(1)
    closed = life.project.published - 1

    def written() -> bool:
        seen = life.fleet.observe(record.driver_id)
        assert seen.alive, f"the driver ended: {seen.exit}\n{life.project.log(record.driver_id)}"
        return sum(counted(life.spec).values()) >= 20 * closed

    until("the closed windows", written, poll=0.2, told=lambda: _told(life, closed))
    seen = life.fleet.stop("counts", requested_by="ann", reason="the end")
    assert seen is not None
    assert seen.record.driver_id == record.driver_id
    assert counted(life.spec) == expected_counts(closed)


def _told(life: Life, closed: int) -> str:
    counts, expected = counted(life.spec), expected_counts(closed)
    position = log_position(open_path(life.spec.checkpoint))
    missing = sorted({window for window, _ in expected.keys() - counts.keys()})
    return f"missing windows {missing}; checkpoint {position}; published {life.project.published}"
