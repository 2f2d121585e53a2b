"""A warm standby takes over from its leader: after a kill, at a planned restart, into each kind of sink while the
leader stands still in the middle of a batch, and never with older code.

A supervisor in a thread decides, as `streamwarden start --supervise` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.connections import variable
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.standby import NOT_USED, PROMOTED, standby_state
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, waiting
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, SourceSpec, Standby, StreamSpec
from support.command_line import in_shell
from support.spark.drivers import COUNTS, QUICK, Project, counted, expected_counts, producing, project, until
from support.spark.environments import python_with
from support.spark.mid_batch import newest
from support.spark.supervision import supervised

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


SCRIPT = """
import sys

from pyspark.sql import SparkSession, functions as F

source, checkpoint, output = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = spark.readStream.schema("id BIGINT, key INT, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(source)
windows = rows.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds"), "key")
query = (
    windows.agg(F.count("*").alias("n"))
    .writeStream.format("parquet")
    .option("path", output)
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime="200 milliseconds")
    .start()
)
query.awaitTermination()
"""


class Pair:
    """A stream with a standby."""

    def __init__(self, made: Project, text: str = COUNTS, **changes: Any) -> None:
        self.project = made
        self.spec: StreamSpec = made.spec("counts", text, standby=Standby.WARM, **changes)
        self.drivers = made.data / "drivers" / "counts"

    def leader(self) -> DriverRecord | None:
        """The driver, once it has committed a batch of its own."""
        driver = self.project.store.drivers.latest("counts")
        if driver is None or driver.exit is not None or driver.process is None:
            return None
        commits = Path(self.spec.checkpoint) / "commits"
        own = [path for path in commits.glob("[0-9]*") if path.stat().st_mtime > driver.launched_at]
        return driver if own else None

    def standby(self) -> WaitingStandby | None:
        """The standby of the living leader, once it can be taken."""
        leader = self.project.store.drivers.latest("counts")
        found = next(iter(waiting(self.drivers)), None)
        if leader is None or found is None or found.record.leader != leader.driver_id:
            return None
        return found if found.is_ready(time.time()) else None

    def both(self) -> tuple[DriverRecord, WaitingStandby]:
        return until("a leader that works", self.leader), until("a standby that waits", self.standby)

    def successor_of(self, driver: DriverRecord) -> DriverRecord:
        """The next driver, once it has committed the batch of a new file."""
        self.project.publish(1)

        def next_one() -> DriverRecord | None:
            newest = self.leader()
            return newest if newest is not None and newest.driver_id != driver.driver_id else None

        return until("a successor that works", next_one, told=lambda: self.project.log(driver.driver_id))

    def events(self, driver: DriverRecord) -> dict[str, dict[str, str]]:
        return {event.kind: event.detail for event in self.project.store.drivers.events(driver.driver_id)}

    def stop(self) -> None:
        """Stop the stream; its standby ends, and each row was counted once."""
        self.project.publish(2)
        closed = self.project.published - (self.spec.sink.mode is not OutputMode.UPDATE)  # which has open windows, too
        until("the closed windows", lambda: sum(self.counted().values()) >= 20 * closed, poll=0.2)
        self.project.fleet.stop("counts", requested_by="ann", reason="the end")
        until("nothing left", lambda: not self.project.living())
        assert not list(self.drivers.glob(f"*/{files.STANDBY}"))
        assert self.counted() == expected_counts(closed)

    def counted(self) -> dict[tuple[str, int], int]:
        """The output: (start of the window, key) -> rows."""
        return counted(self.spec)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with project(tmp_path) as made:
        made.publish(2)
        yield Pair(made)


@pytest.mark.full  # in the first tier test_pool_of_standbys has one that restarts a killed stream
def test_after_a_kill_the_standby_runs_the_stream_under_a_new_token_and_each_row_is_counted_once(pair: Pair) -> None:
    with supervised(pair.project, pair.spec):
        leader, standby = pair.both()
        assert pair.project.store.drivers.get(standby.folder.name) is None, "a standby is no driver"
        assert files.read_lease(standby.folder) is None
        state = until("its leader's word", lambda: standby_state(pair.project.store.drivers.events(leader.driver_id)))
        assert state.driver_id == standby.folder.name
        pair.project.publish(1)
        pair.project.fleet.kill(leader.driver_id)
        successor = pair.successor_of(leader)
        assert successor.driver_id == standby.folder.name
        assert successor.process == standby.process
        assert successor.token > leader.token
        assert PROMOTED in pair.events(successor)
        ended = pair.project.store.drivers.get(leader.driver_id)
        assert ended is not None
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.KILLED
        pair.stop()


@pytest.mark.full  # unit/services/fleet/test_waiting_standbys has one whose digest differs
def test_one_prepared_from_older_code_is_never_used_is_renewed_and_serves_a_planned_restart(pair: Pair) -> None:
    job = Path(pair.spec.job)
    with supervised(pair.project, pair.spec):
        leader, older = pair.both()
        job.write_text(f"{job.read_text()}\n# deployed\n")
        pair.project.fleet.kill(leader.driver_id)
        successor = pair.successor_of(leader)
        assert successor.driver_id != older.folder.name
        assert "the job's code" in pair.events(successor).get(NOT_USED, {}).get("because", "the job's code")
        until("the end of the older standby", lambda: not processes.is_alive(older.process))

        standby = until("its own standby", pair.standby)
        job.write_text(f"{job.read_text()}\n# deployed again\n")
        until("the end of the standby", lambda: not processes.is_alive(standby.process))
        renewed = until("a newer one", pair.standby)
        assert renewed.folder.name > standby.folder.name

        pair.project.fleet.request_stop("counts", requested_by="ann", reason="deployed", restart=True)
        restarted = pair.successor_of(successor)
        assert restarted.driver_id == renewed.folder.name
        pair.stop()


@pytest.mark.full  # in the first tier drivers/test_driver_life has a driver that was replaced and stops by itself
def test_a_leader_that_goes_on_after_the_standby_took_over_commits_nothing(pair: Pair) -> None:
    """Leader and supervisor process stand still, as on a paused host, and another host finds the lease expired."""
    spec, fleet = pair.spec, pair.project.fleet
    fleet.start(spec, launched_by="test")
    leader, standby = pair.both()
    assert fleet.freeze(leader.driver_id, supervised=False)
    with fleet.elsewhere(leader.driver_id) as other:
        until("the end of the lease", lambda: not other.start(spec, launched_by="there").reattached, poll=1.0)
    successor = pair.successor_of(leader)
    assert successor.driver_id == standby.folder.name
    pair.project.publish(1)
    assert fleet.thaw(leader.driver_id)
    outcome = until("the end of the leader", lambda: files.read_outcome(Path(leader.folder)))
    assert outcome.kind is ExitKind.FENCED
    fleet.set_running("counts", "ann", "it goes on")
    pair.stop()


FLAT = COUNTS.replace(
    'alias("n"))\n',
    'alias("n"))\n        .select(F.date_format("window.start", "HH:mm:ss").alias("began"), "key", "n")\n',
)
KEY = ("began", "key")


LOGS = {"parquet": "_spark_metadata/[0-9]*", "delta": "_delta_log/*.json", "iceberg": "metadata/*.metadata.json"}
"""Where a sink of files enters what a batch wrote."""


class IntoSink(Pair):
    """A stream with a standby that writes into a sink of some kind."""

    def pause_in_a_batch(self, driver: DriverRecord) -> None:
        """Pause driver and supervisor process, as on a paused host, in the middle of a batch: into a sink of files when
        it has data files that its log does not name yet."""
        for _ in range(20):
            until("the end of the batch before", self.is_between_batches)
            data, log = self.listed("**/*.parquet"), set[str]()

            def has_data(before: set[str] = data) -> bool:
                """Whether data files have come; until then batches without rows may be entered in the log."""
                nonlocal log
                newest_log = self.listed(LOGS.get(self.spec.sink.kind, "none"))
                if self.is_in_a_batch(before):
                    return True
                log = newest_log
                return False

            self.project.publish(1)
            until("a batch", has_data, poll=0.002)
            assert self.project.fleet.freeze(driver.driver_id, supervised=False)
            if self.is_in_a_batch(data) and self.listed(LOGS.get(self.spec.sink.kind, "none")) == log:
                return
            assert self.project.fleet.thaw(driver.driver_id)
        raise TimeoutError("twenty pauses, and none in the middle of a batch")

    def is_between_batches(self) -> bool:
        return newest(self.spec.checkpoint, "offsets") == newest(self.spec.checkpoint, "commits")

    def is_in_a_batch(self, before: set[str]) -> bool:
        """Whether a batch is planned and not committed, and its data files have come to those of `before`."""
        planned = newest(self.spec.checkpoint, "offsets") > newest(self.spec.checkpoint, "commits")
        return planned and (self.spec.sink.path is None or self.listed("**/*.parquet") > before)

    def listed(self, pattern: str) -> set[str]:
        """Files of the sink, without those that Hadoop hides."""
        found = Path(self.spec.sink.path).glob(pattern) if self.spec.sink.path else ()
        return {str(path) for path in found if not path.name.startswith((".", "_"))}

    def counted(self) -> dict[tuple[str, int], int]:
        """As a reader has it that drops the records of a topic whose id it has seen."""

        def read() -> Any:
            """None between a commit of the sink and that of the checkpoint."""
            committed = newest(self.spec.checkpoint, "commits")
            output = self.spec.sink.read(self.spec, {}, committed=committed, first=0, deduplicated=True)  # type: ignore[attr-defined]
            return output if not output.problems or newest(self.spec.checkpoint, "offsets") == committed else None

        output = until("an output of whole batches", read)
        assert not output.problems
        rows = output.keyed(KEY, ("n",))
        assert len({key for key, _ in rows}) == len(rows), "a window is there twice"
        return {(str(began), int(key)): int(n) for (began, key), (n,) in rows}


@pytest.fixture(params=["parquet", "kafka", "postgresql", "delta", "iceberg", "iceberg-update"])
def into_sink(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IntoSink]:
    kind = request.param
    with project(tmp_path) as made:
        made.publish(2)
        path, more = str(made.data / "output" / "counts"), dict[str, Any]()
        lake = kind.removesuffix("-update")
        if lake in ("delta", "iceberg"):
            more["spark"] = SparkSpec(driver_memory=2**30, conf=dict(QUICK), python=str(python_with(lake)))
        if kind == "kafka":
            broker = request.getfixturevalue("kafka")
            broker.create("taken_over")
            monkeypatch.setenv(variable("broker"), broker.connection)
        if kind == "postgresql":
            server = request.getfixturevalue("postgresql")
            server.create("taken_over")
            monkeypatch.setenv(variable("warehouse"), server.connection("taken_over"))
        sinks = {
            "parquet": lambda: ParquetSink(path=path),
            "kafka": lambda: KafkaSink(connection="broker", topic="taken_over", key=KEY),
            "postgresql": lambda: PostgresqlSink(connection="warehouse", table="counts", key=KEY),
            "delta": lambda: DeltaSink(path=path, key=KEY),
            "iceberg": lambda: IcebergSink(path=path, key=KEY),
            "iceberg-update": lambda: IcebergSink(path=path, key=KEY, mode=OutputMode.UPDATE),
        }
        yield IntoSink(made, FLAT, sink=sinks[kind](), **more)


@pytest.mark.full  # in the first tier drivers/test_driver_life has a driver that was replaced and stops by itself
@pytest.mark.timeout(1200)
def test_a_leader_that_was_paused_in_a_batch_is_fenced_and_each_row_is_in_the_sink_once(into_sink: IntoSink) -> None:
    """Another host finds the lease expired, the standby executes the batch again, and then the leader goes on."""
    fleet = into_sink.project.fleet
    fleet.start(into_sink.spec, launched_by="test")
    leader, standby = into_sink.both()
    into_sink.pause_in_a_batch(leader)
    with fleet.elsewhere(leader.driver_id) as other:
        until("the end of the lease", lambda: not other.start(into_sink.spec, launched_by="there").reattached, poll=1.0)
    successor = into_sink.successor_of(leader)
    assert successor.driver_id == standby.folder.name
    before = into_sink.counted()
    assert fleet.thaw(leader.driver_id)
    outcome = until("the end of the leader", lambda: files.read_outcome(Path(leader.folder)))
    assert (outcome.kind, outcome.error_class) == (ExitKind.FENCED, "LeaseLost"), outcome
    assert into_sink.counted().items() >= before.items()
    fleet.set_running("counts", "ann", "it goes on")
    into_sink.stop()


STREAM = """
name: counts
job: jobs/counts.py
source: {path: input, max_files_per_trigger: 1}
sink: {path: output/counts}
checkpoint: checkpoints/counts
trigger: {processing_time: 500 ms}
state: {shuffle_partitions: 1}
standby: warm
health: {thresholds: {batch_longer_than_trigger: {warning: 1000, critical: 2000}}}   # what a busy machine may take
spark: {master: "local[1]", driver_memory: 700 MiB, conf: {spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1}}
"""


@pytest.mark.full  # above a restart takes the standby; unit/services/upgrades has the switch
def test_the_switch_of_an_upgrade_takes_a_standby_of_the_new_version(tmp_path: Path) -> None:
    with project(tmp_path) as made:
        (made.root / "config" / "streams").mkdir(parents=True)
        (made.root / "config" / "streams" / "counts.yaml").write_text(STREAM)
        made.publish(2)
        made.job("newer", COUNTS.replace(".groupBy(", '.where("key >= 0").groupBy('))
        pair = Pair(made)
        with producing(made, every=1.0):
            assert in_shell(made.root, "start", "counts").code == 0
            leader, standby = pair.both()
            job = ("--job", "jobs/newer.py", "--watch", "5s", "--batches", "3")
            done = in_shell(made.root, "upgrade", "counts", *job, timeout=400)
            assert done.code == 0, done
            successor = pair.successor_of(leader)
            assert PROMOTED in pair.events(successor), pair.events(successor)
            assert successor.driver_id != standby.folder.name, "that one is of the older version"
        pair.stop()


@pytest.mark.full  # in the first tier test_pool_of_standbys takes over, test_several_queries has scripts
def test_the_standby_of_a_script_runs_the_script_in_a_session_of_its_own(tmp_path: Path) -> None:
    with project(tmp_path) as made:
        made.publish(2)
        places = (made.input, made.data / "checkpoints" / "counts", made.data / "output" / "counts")
        pair = Pair(made, SCRIPT, source=SourceSpec(), quarantine=None, args=tuple(map(str, places)))
        with supervised(made, pair.spec):
            leader, standby = pair.both()
            made.fleet.kill(leader.driver_id)
            assert pair.successor_of(leader).driver_id == standby.folder.name
            pair.stop()


@pytest.mark.full  # unit/services/fleet/test_waiting_standbys has one that was dismissed
def test_a_standby_whose_leader_is_gone_ends_by_itself(pair: Pair) -> None:
    pair.project.fleet.start(pair.spec, launched_by="test")
    leader, standby = pair.both()
    pair.project.fleet.kill(leader.driver_id)
    began = time.monotonic()
    until("its end", lambda: not processes.is_alive(standby.process), poll=1.0)
    assert time.monotonic() - began > 60, "a supervisor would have had the time to take it"
    until("nothing left", lambda: not pair.project.living())
    assert not standby.folder.exists()
