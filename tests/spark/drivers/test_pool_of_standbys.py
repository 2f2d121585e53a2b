"""Standbys that streams share: a launch takes one, another is prepared, and none outlives the streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.config.project.standbys import FILE
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.pool import pool_state
from streamwarden.lifecycle.supervision.standby import NOT_USED, PROMOTED
from streamwarden.services.fleet.standbys.pool import pool_folder, users
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, waiting
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import SourceSpec, StateSpec, StreamSpec
from support.spark.drivers import COUNTS, Project, counted, expected_counts, project, until
from support.spark.supervision import supervised

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCRIPT = """
import sys

from pyspark.sql import SparkSession, functions as F

source, checkpoint, output = sys.argv[1:]
rows = SparkSession.builder.getOrCreate().readStream.schema("id BIGINT, key INT, at TIMESTAMP")
windows = rows.json(source).withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds"), "key")
sink = windows.agg(F.count("*").alias("n")).writeStream.format("parquet").option("path", output)
sink.option("checkpointLocation", checkpoint).trigger(processingTime="200 milliseconds").start().awaitTermination()
"""


class Shared:
    """A project whose streams share one standby. `first` runs, and the standby was prepared by its driver."""

    def __init__(self, made: Project) -> None:
        self.project = made
        (made.root / FILE).parent.mkdir()
        (made.root / FILE).write_text("count: 1\n")
        self.first = self.spec("first", state=StateSpec(shuffle_partitions=2))
        self.launched = made.start(self.first)

    def spec(self, name: str, text: str = COUNTS, **changes: Any) -> StreamSpec:
        return self.project.spec(name, text, **changes)

    def standby(self, *streams: str) -> WaitingStandby:
        """The standby, once it can be taken and these streams use it."""

        def ready() -> WaitingStandby | None:
            found = next(iter(waiting(pool_folder(self.project.data))), None)
            used = found is not None and users(found.folder, time.time()) == sorted(streams)
            return found if found is not None and used and found.is_ready(time.time()) else None

        return until(f"a standby for {streams}", ready, told=lambda: self.project.log(self.launched))

    def driver(self, spec: StreamSpec, after: str = "") -> DriverRecord:
        """The stream's driver, once it has committed the batch of a new file."""
        self.project.publish(1)

        def works() -> DriverRecord | None:
            driver = self.project.store.drivers.latest(spec.name)
            if driver is None or driver.exit is not None or driver.driver_id == after:
                return None
            commits = Path(spec.checkpoint).glob("commits/[0-9]*")
            return driver if any(path.stat().st_mtime > driver.launched_at for path in commits) else None

        return until(f"a driver of {spec.name} that works", works)

    def events(self, driver: str) -> dict[str, dict[str, str]]:
        return {event.kind: event.detail for event in self.project.store.drivers.events(driver)}

    def stop(self, *specs: StreamSpec) -> None:
        """Stop the streams: each row was counted once, and nothing is left."""
        self.project.publish(2)
        closed = self.project.published - 1
        for spec in specs:
            until("the closed windows", lambda spec=spec: sum(counted(spec).values()) >= 20 * closed, poll=0.2)
            self.project.fleet.stop(spec.name, requested_by="ann", reason="the end")
            assert counted(spec) == expected_counts(closed)
        until("nothing left", lambda: not self.project.living())
        assert not list(pool_folder(self.project.data).glob("pool-*"))


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with project(tmp_path) as made:
        made.publish(2)
        yield Shared(made)


def test_a_shared_standby_starts_another_stream_and_the_next_one_restarts_it_after_a_kill(shared: Shared) -> None:
    """Both streams differ in a setting that a session takes at run time. Each row of the killed one is counted once."""
    assert shared.events(shared.launched)[NOT_USED] == {"because": "no standby of the pool waits"}
    second, standby = shared.spec("second"), shared.standby("first")
    assert files.read_lease(standby.folder) is None
    with supervised(shared.project, second):
        driver = shared.driver(second)
        assert driver.process == standby.process
        assert shared.events(driver.driver_id)[PROMOTED] == {"pool": standby.folder.name}
        assert len(list(Path(second.checkpoint, "state", "0").glob("[0-9]*"))) == 1
        assert len(list(Path(shared.first.checkpoint, "state", "0").glob("[0-9]*"))) == 2

        refilled = shared.standby("first", "second")
        until("word of it", lambda: pool_state(shared.project.store.drivers.events(driver.driver_id)) == "1 of 1")
        shared.project.fleet.kill(driver.driver_id)
        restarted = shared.driver(second, after=driver.driver_id)
        assert restarted.process == refilled.process
        assert restarted.token > driver.token
        killed = shared.project.store.drivers.get(driver.driver_id)
        assert killed is not None
        assert killed.exit is not None
        assert killed.exit.kind is ExitKind.KILLED
        until("the end of its home", lambda: not standby.folder.exists())
    shared.stop(second, shared.first)


@pytest.mark.full  # above a job with `build` takes one; unit/lifecycle/supervision/test_pool has what must be equal
def test_a_script_opens_its_own_session_in_the_process_that_it_takes(shared: Shared) -> None:
    data = shared.project.data
    output = data / "output" / "script"
    places = (shared.project.input, data / "checkpoints" / "script", output)
    script = shared.spec(
        "script",
        SCRIPT,
        source=SourceSpec(),
        sink=ParquetSink(path=str(output)),
        quarantine=None,
        args=tuple(map(str, places)),
    )
    standby = shared.standby("first")
    shared.project.start(script)
    assert shared.driver(script).process == standby.process
    assert len(list(Path(script.checkpoint, "state", "0").glob("[0-9]*"))) == 1
    shared.stop(script, shared.first)


@pytest.mark.full  # unit/services/fleet/test_pool_of_standbys has standbys whose streams left
def test_a_standby_ends_soon_after_the_last_stream_was_killed_and_not_restarted(shared: Shared) -> None:
    standby = shared.standby("first")
    shared.project.fleet.kill(shared.launched)
    until("its end", lambda: not processes.is_alive(standby.process), poll=1.0)
    until("nothing left", lambda: not shared.project.living())
    assert not standby.folder.exists()
