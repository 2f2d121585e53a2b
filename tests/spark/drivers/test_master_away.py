"""A real standalone master that is unavailable when a stream starts, and again while it runs: supervision keeps it up.

First nothing listens at the master's address: Spark gives up after a minute, and the exit names the master. Then the
master comes up, and the stream runs. Then it is killed in mid-stream: driver and executor go on. It comes back with no
memory of the application, its worker ends the executor, and without a watch the driver would wait for another for ever.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import Budget, RestartPolicy, StreamSpec
from support.servers.spark_cluster import cluster
from support.spark.drivers import COUNTS, QUICK, Project, project, until
from support.spark.supervision import supervised

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SOON = RestartPolicy(initial=1.0, factor=1.0, cap=1.0, budget=Budget(count=20, per=3600.0))
FILES = 3
"""Published at a time: before the first start, while the master is away, and after it is back."""


def newest(home: Project, spec: StreamSpec) -> DriverRecord:
    driver = home.store.drivers.latest(spec.name)
    assert driver is not None
    return driver


def ends(home: Project, spec: StreamSpec) -> list[DriverRecord]:
    return [driver for driver in home.store.drivers.history(spec.name, 0) if driver.exit is not None]


def rows(spec: StreamSpec) -> list[tuple[tuple[object, ...], tuple[object, ...]]]:
    """What is in the output; nothing before the first batch has made the folder."""
    output = Path(str(spec.sink.path), "_spark_metadata")
    return read_output(str(spec.sink.path)).keyed(["window", "key"], ["n"]) if output.is_dir() else []


def closed(portions: int) -> int:
    """Rows of so many portions: two windows of five keys for each file but the newest, whose windows are open."""
    return 2 * 5 * (portions * FILES - 1)


def await_rows(home: Project, spec: StreamSpec, portions: int) -> None:
    def log() -> str:
        return home.log(newest(home, spec).driver_id)

    until(f"the rows of {portions} portions", lambda: len(rows(spec)) >= closed(portions), poll=0.2, told=log)


def test_a_master_that_comes_back_finds_its_stream_running(tmp_path: Path) -> None:
    with cluster(started=False) as spark, project(tmp_path) as home:
        conf = {**QUICK, "spark.driver.host": "127.0.0.1", "spark.executor.heartbeatInterval": "1s"}
        executors = ExecutorsSpec(instances=1, cores=1, memory=600 * 2**20)
        on = SparkSpec(master=spark.url, driver_memory=700 * 2**20, executors=executors, conf=conf)
        spec = home.spec("counts", COUNTS, spark=on, restart=SOON)
        home.publish(FILES)
        with supervised(home, spec):
            until("a driver that found no master", lambda: ends(home, spec))
            away = ends(home, spec)[0]
            assert away.exit is not None
            assert (away.exit.kind, away.exit.curable) == (ExitKind.FAILED, True), away.exit
            assert away.exit.message.startswith(f"the Spark master does not answer ({spark.url}: ")
            assert "bring the master back" in away.exit.next_step
            assert home.committed(spec) == 0

            spark.start_master()
            spark.start_workers(cores=2)
            await_rows(home, spec, 1)

            lived = newest(home, spec)
            spark.kill_master()
            home.publish(FILES)
            await_rows(home, spec, 2)
            assert newest(home, spec).driver_id == lived.driver_id, "a running driver needs no master"

            spark.start_master()
            until("another driver", lambda: newest(home, spec).driver_id != lived.driver_id)
            forgotten = home.fleet.observe(lived.driver_id).exit
            assert forgotten is not None
            assert (forgotten.kind, forgotten.curable) == (ExitKind.FAILED, True), forgotten
            assert "does not know the application" in forgotten.message
            home.publish(FILES)
            await_rows(home, spec, 3)
            stopped = home.fleet.stop(spec.name, requested_by="test", reason="all is read")
            assert stopped is not None
            assert stopped.exit is not None
            assert stopped.exit.kind is ExitKind.STOPPED
        found = rows(spec)
        assert len(found) == len({str(key) for key, _ in found}) == closed(3), "each window once"
        assert {counted for _, counted in found} == {(2,)}, "each row counted once"
