"""Streams on real standalone clusters, whose parts die.

1. event_windows: first its executor, then a whole worker is killed in mid-batch, and not a row is lost or doubled. The
   driver lives on, on its own host, supervised as ever; Spark gives its tasks to a new executor, which loads the state
   from the checkpoint. Meanwhile the driver measures its executors through Spark's REST API.
2. A job whose Python is shipped, on what is left of that cluster.
3. In the second tier a master that is unavailable when a stream starts, and again while it runs: supervision keeps the
   stream up. First nothing listens at the master's address: Spark gives up after a minute, in which the tests above
   run, and the exit names the master. Then the master comes up, and the stream runs. Then it is killed in mid-stream:
   driver and executor go on. It comes back with no memory of the application, its worker ends the executor, and without
   a watch the driver would wait for another for ever. At last somebody kills the application on the master's page while
   the stream is idle: Spark stops the driver's context and leaves its process.
"""

from __future__ import annotations

import json
import random
import signal
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamwarden.health.checks.driver import memory_usage
from streamwarden.health.signals.executors import ExecutorSnapshot, executor_snapshots
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement, Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.sinks.files.output import read_output
from streamwarden.spark.executors.watch import EXECUTOR_LOST
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import Backend, Budget, RestartPolicy, StreamSpec, TriggerSpec
from support.servers.spark_cluster import Cluster, cluster
from support.spark.drivers import COUNTS, QUICK, Project, project, until
from support.spark.job_runs import publish, stream
from support.spark.mid_batch import newest
from support.spark.supervision import supervised
from support.spark.verdicts import verify

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS = 8, 50
"""Of each of the two halves."""

MEMORY = 600 * 2**20
LIMIT = MEMORY + 384 * 2**20
"""An executor's memory and Spark's least overhead."""


def lines(number: int) -> list[str]:
    chance = random.Random(number)
    begin = START + timedelta(seconds=90 * number)
    return [
        json.dumps(
            {
                "event_time": f"{begin + timedelta(seconds=chance.randrange(90)):%Y-%m-%dT%H:%M:%S}.000Z",
                "user_id": chance.randrange(4),
                "action": "view",
            }
        )
        for _ in range(EVENTS)
    ]


@dataclass
class Ran:
    """What happened."""

    cluster: Cluster
    project: Project
    spec: StreamSpec
    driver: str
    struck: tuple[int, int]
    """The batches that were planned and not committed when the executor, and then the worker, was killed."""
    launched: int
    """Executors that the workers launched for it."""
    listening: frozenset[str]
    """The addresses on which the driver's JVM listened."""
    held: tuple[float, float]
    """Bytes of the living executor: as they were measured, and as its host had them then."""
    end: ExitRecord

    def measurements(self) -> tuple[Measurement, ...]:
        return self.project.store.measurements.recent(self.spec.name, 0)


@dataclass
class Unanswered:
    """A supervised stream whose master is not there yet."""

    cluster: Cluster
    project: Project
    spec: StreamSpec

    def newest(self) -> DriverRecord:
        driver = self.project.store.drivers.latest(self.spec.name)
        assert driver is not None
        return driver

    def ends(self) -> list[DriverRecord]:
        return [each for each in self.project.store.drivers.history(self.spec.name, 0) if each.exit is not None]

    def rows(self) -> list[tuple[tuple[object, ...], tuple[object, ...]]]:
        """What is in the output; nothing before the first batch has made the folder."""
        output = str(self.spec.sink.path)
        made = Path(output, "_spark_metadata").is_dir()
        return read_output(output).keyed(["window", "key"], ["n"]) if made else []

    def await_rows(self, portions: int) -> None:
        def log() -> str:
            return self.project.log(self.newest().driver_id)

        until(f"the rows of {portions} portions", lambda: len(self.rows()) >= closed(portions), poll=0.2, told=log)


PORTION = 3
"""Files that are published before the first start, while the master is away, and after it is back."""


def closed(portions: int) -> int:
    """Rows of so many portions: two windows of five keys for each file but the newest, whose windows are open."""
    return 2 * 5 * (portions * PORTION - 1)


@pytest.fixture(scope="module")
def unanswered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unanswered]:
    """It costs no processor time while it waits: it is started before all else, and looked at last."""
    soon = RestartPolicy(initial=1.0, factor=1.0, cap=1.0, budget=Budget(count=20, per=3600.0))
    with cluster(started=False) as spark, project(tmp_path_factory.mktemp("unanswered")) as home:
        spec = home.spec("counts", COUNTS, spark=on(spark), restart=soon)
        home.publish(PORTION)
        with supervised(home, spec):
            yield Unanswered(spark, home, spec)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Ran]:
    if request.config.getoption("--full"):
        request.getfixturevalue("unanswered")
    with cluster(workers=3) as spark, project(tmp_path_factory.mktemp("cluster")) as home:
        spec = replace(
            stream("event_windows", home.data, Backend.ROCKSDB),
            spark=on(spark),
            trigger=TriggerSpec(processing_time=0.2),
        )
        folder = Path(str(spec.source.path))
        publish(folder, [lines(number) for number in range(FILES)])
        driver = home.start(spec)
        first = in_mid_batch(home, spec, driver, spark, 2, kill_the_executor)
        home.await_batches(spec, FILES)
        await_look(home, spec, driver, lost=1)
        listening = listening_on(home, driver)
        held = (measured_memory(home, spec), float(spark.executors()[0].memory_info().rss))
        publish(folder, [lines(number) for number in range(FILES, 2 * FILES)], name="b")
        second = in_mid_batch(home, spec, driver, spark, FILES, Cluster.kill_a_busy_worker)
        home.await_batches(spec, 2 * FILES)
        await_look(home, spec, driver, lost=2)
        stopped = home.fleet.stop(spec.name, requested_by="test", reason="all is read")
        assert stopped is not None
        assert stopped.exit is not None
        yield Ran(spark, home, spec, driver, (first, second), spark.launched(), listening, held, stopped.exit)


def on(spark: Cluster, **more: Any) -> SparkSpec:
    conf = {**QUICK, "spark.executor.heartbeatInterval": "1s"}
    executors = ExecutorsSpec(instances=1, cores=1, memory=MEMORY)
    return SparkSpec(master=spark.url, driver_memory=700 * 2**20, executors=executors, conf=conf, **more)


def listening_on(home: Project, driver: str) -> frozenset[str]:
    record = home.store.drivers.get(driver)
    assert record is not None
    assert record.process is not None
    sockets = psutil.Process(record.process.pid).net_connections(kind="inet")
    return frozenset(each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN)


def measured_memory(home: Project, spec: StreamSpec) -> float:
    (found,) = executor_snapshots(home.store.measurements.recent(spec.name, 0))[-1].memory.values()
    return found[0]


def in_mid_batch(
    home: Project, spec: StreamSpec, driver: str, spark: Cluster, after: int, strike: Callable[[Cluster], bool]
) -> int:
    """Strike while a batch behind `after` runs; returns the batch."""

    def struck() -> int | None:
        planned, committed = newest(spec.checkpoint, "offsets"), newest(spec.checkpoint, "commits")
        if planned <= max(committed, after) or not strike(spark):
            return None
        return planned if newest(spec.checkpoint, "commits") < planned else None

    return until("a strike in mid-batch", struck, poll=0.002, told=lambda: home.log(driver)) or -1


def kill_the_executor(spark: Cluster) -> bool:
    executors = spark.executors()
    if executors:
        executors[0].send_signal(signal.SIGKILL)
    return bool(executors)


def await_look(home: Project, spec: StreamSpec, driver: str, *, lost: int) -> None:
    """Until the driver has seen the loss, and the memory of the executor that came instead."""

    def seen() -> bool:
        found = executor_snapshots(home.store.measurements.recent(spec.name, 0))
        return bool(found) and found[-1].lost >= lost and found[-1].active == 1 and bool(found[-1].memory)

    until(f"{lost} lost executors in the measurements", seen, told=lambda: home.log(driver))


def test_the_driver_and_its_ui_listen_where_the_cluster_is(ran: Ran) -> None:
    """Spark's UI has no login. By default it listens on every interface of the host."""
    assert {address.removeprefix("::ffff:") for address in ran.listening} == {"127.0.0.1"}


def test_neither_the_executor_nor_the_worker_took_a_row_with_it(ran: Ran) -> None:
    outcome = verify(ran.spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == 2 * FILES * EVENTS
    assert outcome.expected > 4


def test_the_executors_were_replaced_and_the_driver_was_not(ran: Ran) -> None:
    assert ran.end.kind is ExitKind.STOPPED
    assert ran.struck[0] >= 3
    assert ran.struck[1] > FILES
    assert ran.launched >= 3
    newest_driver = ran.project.store.drivers.latest(ran.spec.name)
    assert newest_driver is not None
    assert newest_driver.driver_id == ran.driver


def test_the_memory_of_real_executors_was_measured(ran: Ran) -> None:
    """Resident memory of a JVM that was given 600 MB of heap: a few hundred MB, of a limit that is known."""
    found = looks_at(ran.project, ran.spec)
    assert found
    for look in found:
        assert look.active == 1
        for executor, (used, limit) in look.memory.items():
            assert executor.endswith(", resident")
            assert 100 * 2**20 < used < 2 * LIMIT
            assert limit == LIMIT
    assert len({executor for look in found for executor in look.memory}) >= 2, "those that came later too"
    measured, actual = ran.held
    assert 0.5 < measured / actual < 1.5, "what the host has of the executor's JVM, which runs no Python"


def test_the_memory_check_judges_them(ran: Ran) -> None:
    """As it does while the stream runs: here, at the time of the newest look."""
    at = looks_at(ran.project, ran.spec)[-1].at
    window = Window(spec=ran.spec, now=at, measurements=ran.measurements(), driver_alive=True)
    verdict = memory_usage.check(window, DEFAULTS)
    assert verdict.status is not Status.UNKNOWN, verdict
    assert verdict.evidence["executors"]
    assert verdict.evidence["executors_lost"] >= 2, "one more for a strike that came between two batches"
    assert verdict.evidence["resident_bytes"]


def test_each_loss_is_an_event_of_the_driver(ran: Ran) -> None:
    events = [each for each in ran.project.store.drivers.events(ran.driver) if each.kind == EXECUTOR_LOST]
    assert len(events) == len({each.detail["executor"] for each in events}) >= 2
    assert all(each.detail["reason"] for each in events)


SHIPPED = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def where(key):
    import shipped_words  # in the archive alone

    return f"{shipped_words.name(key)} {shipped_words.__file__}"


def build(spark, spec):
    rows = read_rows(spark, spec, "id BIGINT, key INT, at TIMESTAMP", required=["at"])
    return rows.select("id", "key", F.udf(where)("key").alias("said"))
"""


def test_python_that_only_the_project_has_is_shipped_to_the_executors(ran: Ran) -> None:
    """A module inside a zip that is on nobody's path: the executor has it from the driver, in its own folder."""
    import pyarrow.parquet as pq

    home = ran.project
    library = home.root / "library.zip"
    with zipfile.ZipFile(library, "w") as archive:
        archive.writestr(
            "shipped_words.py", "def name(key):\n    return ['zero', 'one', 'two', 'three', 'four'][key]\n"
        )
    home.publish(1, rows=10)
    spec = home.spec(
        "shipped", SHIPPED, spark=on(ran.cluster, py_files=(str(library),)), trigger=TriggerSpec(available_now=True)
    )
    driver = home.start(spec)
    assert home.await_end(driver).kind is ExitKind.COMPLETED, home.log(driver)
    files = sorted(Path(str(spec.sink.path)).glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert len(rows) == 10
    names = ["zero", "one", "two", "three", "four"]
    for row in rows:
        name, _, place = row["said"].partition(" ")
        assert name == names[row["key"]]
        assert "library.zip" in place
        assert not place.startswith(str(library)), "the copy that was shipped, not the project's own"


PEAK = """
import os
import time

from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def held(number):
    if number == -1:
        block = b"x" * (800 * 2**20)
        while not os.path.exists({released!r}):
            time.sleep(0.1)
    return number


def build(spark, spec):
    rows = read_rows(spark, spec, "id BIGINT, key INT, at TIMESTAMP", required=["at"])
    return rows.select("key", F.udf(held, "bigint")("id").alias("id"))
"""


@pytest.mark.full  # in the first tier unit/health/checks/test_documented_thresholds judges each measure
def test_an_alarm_of_an_executors_memory_ends_after_the_batch_that_needed_it(ran: Ran) -> None:
    """The executor's Python holds 800 MB for as long as one batch runs. Smaller batches follow."""
    home, released = ran.project, ran.project.root / "released"
    spec = home.spec("peak", PEAK.format(released=str(released)), spark=on(ran.cluster))
    home.publish(2)
    driver = home.start(spec)
    home.await_batches(spec, 2)

    def judged() -> Verdict:
        taken = home.store.measurements.recent(spec.name, 0)
        return memory_usage.check(Window(spec=spec, now=time.time(), measurements=taken, driver_alive=True), DEFAULTS)

    def ended() -> bool:
        home.publish()
        return judged().status is Status.OK

    home.publish(extra=('{"id": -1, "key": 0, "at": "2026-01-01T00:00:00Z"}',))
    until("the alarm", lambda: judged().status is Status.CRITICAL, 120, told=lambda: home.log(driver))
    released.touch()
    until("its end", ended, 180, poll=1.0, told=lambda: f"{judged()}\n{home.log(driver)}")
    shares = [max(used / limit for used, limit in look.memory.values()) for look in looks_at(home, spec)]
    print([round(share, 2) for share in shares])
    assert max(shares) > 0.95
    assert shares[-1] < 0.85
    home.fleet.stop(spec.name, requested_by="test", reason="all is seen")


def looks_at(home: Project, spec: StreamSpec) -> list[ExecutorSnapshot]:
    return [look for look in executor_snapshots(home.store.measurements.recent(spec.name, 0)) if look.memory]


@pytest.mark.full  # in the first tier unit/spark/test_application_watch, and unit/lifecycle/failures has the causes
def test_a_master_that_comes_back_finds_its_stream_running(unanswered: Unanswered) -> None:
    spark, home, spec = unanswered.cluster, unanswered.project, unanswered.spec
    until("a driver that found no master", unanswered.ends)
    away = unanswered.ends()[0]
    assert away.exit is not None
    assert (away.exit.kind, away.exit.curable) == (ExitKind.FAILED, True), away.exit
    assert away.exit.message.startswith(f"the Spark master does not answer ({spark.url}: ")
    assert "bring the master back" in away.exit.next_step
    assert home.committed(spec) == 0

    spark.start_master()
    spark.start_workers(cores=2)
    unanswered.await_rows(1)

    lived = unanswered.newest()
    spark.kill_master()
    home.publish(PORTION)
    unanswered.await_rows(2)
    assert unanswered.newest().driver_id == lived.driver_id, "a running driver needs no master"

    spark.start_master()
    until("another driver", lambda: unanswered.newest().driver_id != lived.driver_id)
    forgotten = home.fleet.observe(lived.driver_id).exit
    assert forgotten is not None
    assert (forgotten.kind, forgotten.curable) == (ExitKind.FAILED, True), forgotten
    assert "does not know the application" in forgotten.message
    home.publish(PORTION)
    unanswered.await_rows(3)

    registered = unanswered.newest()
    assert len(spark.kill_applications()) == 1
    until("a driver after it", lambda: unanswered.newest().driver_id != registered.driver_id)
    killed = home.fleet.observe(registered.driver_id).exit
    assert killed is not None
    assert (killed.kind, killed.curable, killed.cause) == (ExitKind.FAILED, True, "application_ended"), killed
    assert "something other than the job stopped its SparkContext" in killed.message
    stopped = home.fleet.stop(spec.name, requested_by="test", reason="all is read")
    assert stopped is not None
    assert stopped.exit is not None
    assert stopped.exit.kind is ExitKind.STOPPED
    found = unanswered.rows()
    assert len(found) == len({str(key) for key, _ in found}) == closed(3), "each window once"
    assert {counted for _, counted in found} == {(2,)}, "each row counted once"
