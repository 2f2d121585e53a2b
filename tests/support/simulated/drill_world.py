"""A simulated fork on a simulated clock: the drill engine's outside, to enumerate what can happen to it.

Time passes only when the engine sleeps. A running driver needs `startup` seconds, then runs batches of `batch_seconds`
until `total_batches` are committed.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.drills.engine import Engine
from streamwarden.drills.faults.checkpoint_damage import FILES
from streamwarden.drills.faults.driver.clock_step import DRIVER_CLOCK
from streamwarden.drills.faults.driver.kill_executor import EXECUTORS
from streamwarden.drills.faults.driver.upgrade_spark import DRIVER_SPARK
from streamwarden.drills.faults.input.own_input import INPUTS
from streamwarden.drills.faults.restore_savepoint import SAVEPOINTS
from streamwarden.drills.faults.service_outage import SERVICES
from streamwarden.drills.faults.sink.kill_after_database_commit import ARRIVALS
from streamwarden.drills.faults.sink.sink_failing import FOLDER
from streamwarden.drills.faults.sink.sink_locked import TABLE
from streamwarden.drills.faults.table.other_writer import WRITERS
from streamwarden.drills.faults.topic.own_topic import TOPIC
from streamwarden.drills.ports import Ports, SpecCodec
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.outside import Outside
from streamwarden.drills.records.sections import ForkSpec, OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import Copies, DriverView, ForkView, Judgement
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import CheckpointError, DrillAborted, StreamwardenError
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Audit, Outcome
from streamwarden.verification.reconciliation import Reconciliation
from support.simulated.archive import SimulatedArchive
from support.simulated.checkpoint import SimulatedCheckpoint
from support.simulated.clock import SimulatedClock
from support.simulated.cluster import SimulatedCluster
from support.simulated.drill_damage import SimulatedFiles
from support.simulated.drill_inputs import SimulatedInputs
from support.simulated.drill_savepoints import SimulatedSavepoints
from support.simulated.drill_specs import declared
from support.simulated.drill_topics import SimulatedTopic
from support.simulated.driver_spark import SimulatedSpark
from support.simulated.journals import Journals
from support.simulated.lake_table import OF_TABLES, SimulatedLakeTable
from support.simulated.service import SimulatedService
from support.simulated.streams import SimulatedStreams
from support.simulated.table import SimulatedTable

PERFECT = Reconciliation(expected=900, actual=900, lost=0, duplicated=0, unexpected=0, wrong=0, records=120_000)


class Killed(BaseException):
    """The process that runs a step is killed here."""


@dataclass
class SimulatedDriver:
    record: DriverRecord
    ready_at: float
    next_event: float
    exit: ExitRecord | None = None
    stop_asked: bool = False
    stop_asked_at: float | None = None  # for the first time
    doomed: bool = False  # fails at its next event
    fails_at: int | None = None  # when that many batches are committed
    frozen_at: float | None = None
    replaced: bool = False


@dataclass
class World:
    """All ports at once. A test sets the knobs."""

    startup: float = 10.0
    functions: bool = False  # a function of foreachBatch writes
    not_exercised: tuple[NotExercised, ...] = ()
    batch_seconds: float = 2.0
    between: float | None = None  # seconds from a commit to the next plan; None: 0.1 for a fault of a table, else 0
    total_batches: int = 12
    refusal: DrillAborted | None = None
    fork_error: StreamwardenError | None = None
    start_error: StreamwardenError | None = None
    lives_that_start: int = 99
    lives_that_commit: int = 99
    stop_cuts: bool = False
    stop_is_late: bool = False  # obeyed only when the input is at its end
    kill_delay: float = 0.0
    kill_works: bool = True
    freezes: bool = True
    freeze_delay: float = 0.0
    stands_still: bool = True  # a frozen driver, until it is thawed
    lease: float = 45.0  # seconds until another driver may take over
    token_grows: bool = True
    fenced: bool = True  # a replaced driver ends
    block_works: bool = True  # a sink whose folder is not there fails
    database_lead: float = 0.2
    database_keeps: bool = True
    master: str = ""  # empty: this host if a drill changes its Spark, else a cluster
    source: str | None = None  # kind; None: files if a drill takes one away, else a topic
    sink: str | None = None  # kind; None: a topic if a drill strikes one, else a table
    executors_here: int = 1
    executor_dies: bool = True
    executor_dies_late: bool = False  # when the batch that was aimed at has been committed
    driver_survives_executor: bool = True
    patience: float = 60.0  # seconds of an outage after which the driver fails
    gives_up_late: float | None = None  # or fails only that many seconds after the end of it
    fails_after_return: int | None = None  # or fails when it has committed that many batches after the end of it
    failure_is_curable: bool = True
    down_works: bool = True
    down_status: int = 0
    up_failures: int = 0
    up_starts: bool = True
    restarted_by_others: float | None = None  # seconds after `down`
    outage_has_effect: bool = True
    exit_after: dict[int, ExitKind] = field(default_factory=dict)  # life -> kind, right after its first commit
    health: dict[str, Status] = field(default_factory=dict)
    health_after: dict[str, Status] | None = None  # from the second life on
    reconciliation: Reconciliation = PERFECT
    verifier_error: StreamwardenError | None = None
    twin: TwinReport | StreamwardenError | None = None  # None: the job's own oracle judges alone
    left_outside: Outside = field(default_factory=Outside)
    judge_says: bool | None = None
    clear_failures: int = 0  # as if the broker were unavailable
    die_at: str | None = None  # the call in which the step's process is killed, once

    def __post_init__(self) -> None:
        self.time = 1_000_000.0
        self.passed: set[str] = set()  # the calls in which it could have been killed
        self.journals = Journals()
        self.drivers: dict[str, SimulatedDriver] = {}
        self.planned: dict[int, float] = {}
        self.stood: dict[int, float] = {}  # batch -> seconds for which it stood still at its data files
        self.committed: dict[int, float] = {}
        self.in_database: set[int] = set()
        self.blocked = False
        self.copies: Copies | None = None
        self.clock_steps: tuple[float, ...] = ()
        self.table = SimulatedTable(self)
        self.lake = SimulatedLakeTable(self)
        self.clock = SimulatedClock(self)
        self.spark = SimulatedSpark(self)
        self.forks_made = 0
        self.cleared = 0
        self.archive = SimulatedArchive()
        self.checkpoint = SimulatedCheckpoint(self)
        self.signals: list[str] = []
        self.cluster = SimulatedCluster(self)
        self.service = SimulatedService(self)
        self.input = SimulatedTopic(self)
        self.files = SimulatedFiles(self)
        self.inputs = SimulatedInputs(self)
        self.savepoints = SimulatedSavepoints(self)
        self.streams = SimulatedStreams(self)

    def engine(self, *drills: DrillSpec) -> Engine:
        kinds = {fault.kind for drill in drills for fault in drill.sequence}
        if self.sink is None:
            topic = "kill_after_topic_write" in kinds
            table = "delta" if kinds & OF_TABLES else "postgresql"
            self.sink = "kafka" if topic else "parquet" if kinds & OF_FOLDERS else table
        self.master = self.master or ("local[2]" if "upgrade_spark" in kinds else "spark://one:7077")
        if self.between is None:
            self.between = 0.1 if kinds & OF_TABLES else 0.0
        if self.source is None:
            self.source = "files" if kinds & OF_FILES else "kafka"
        ports = Ports(
            forks=self,
            live=self.streams,
            drivers=self,
            checkpoint=self.checkpoint,
            health=self,
            verifier=self,
            judge=self,
            archive=self.archive,
            clock=self,
            specs=SpecCodec(read=spec_from_dict, write=spec_to_dict),
            code=lambda stream: {f"jobs/{stream}.py": "1" * 64},
            of_faults={
                FILES: self.files,
                INPUTS: self.inputs,
                SAVEPOINTS: self.savepoints,
                ARRIVALS: self,
                TABLE: self,
                FOLDER: self,
                WRITERS: self.lake,
                TOPIC: self.input,
                EXECUTORS: self.cluster,
                SERVICES: self.service,
                DRIVER_CLOCK: self.clock,
                DRIVER_SPARK: self.spark,
            },
        )
        return Engine({drill.name: drill for drill in drills}, self.journals, ports)

    # clock

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        goal = self.time + max(seconds, 1e-6)
        self.service.pass_time(goal)
        self.streams.supervise()
        self.table.pass_time(goal)
        while (driver := self._acts_next()) is not None and driver.next_event <= goal:
            self.time = max(self.time, driver.next_event)
            self._happen(driver)
        self.time = goal

    def _acts_next(self) -> SimulatedDriver | None:
        """The driver to which something happens first. A loop: it is asked every three simulated milliseconds."""
        first = None
        for driver in self.drivers.values():
            stands = driver.exit is not None or driver.frozen_at is not None
            if not stands and (first is None or driver.next_event < first.next_event):
                first = driver
        return first

    def _happen(self, driver: SimulatedDriver) -> None:
        life = int(driver.record.driver_id.removeprefix("d"))
        if life > self.lives_that_start:
            message = "AssertionError: the second start is refused"
            self._end(driver, ExitKind.FAILED, message=message, error_class="AssertionError")
            return
        if life > self.lives_that_commit:
            driver.next_event = float("inf")
            return
        if self.input.refuses(driver) or self.files.ends(driver) or self.inputs.ends(driver):
            return
        if self.blocked and self.block_works:
            self._end(driver, ExitKind.FAILED, message="the folder is not a directory", curable=True)
            return
        if driver.doomed:
            self._end(driver, ExitKind.FAILED, message="TimeoutException")
            return
        running = max(self.planned) if len(self.planned) > len(self.committed) else None
        if running is not None and driver.ready_at < driver.next_event:  # the batch that ran is now done
            self.committed[running] = self.time
            if driver.fails_at is not None and len(self.committed) >= driver.fails_at:
                self._end(driver, ExitKind.FAILED, message="its master forgot it", curable=self.failure_is_curable)
            elif life in self.exit_after:
                self._end(driver, self.exit_after[life], message="by itself")
            elif driver.stop_asked and not self.stop_cuts and not self.stop_is_late:
                self._end(driver, ExitKind.STOPPED, cut_batch=False)
            elif len(self.committed) >= self.total_batches:
                self._at_end(driver)
            elif self.between:
                driver.next_event = self.time + self.between
            else:
                self._plan(driver)
        elif running is not None:  # a batch that an earlier life planned is run again
            driver.ready_at = -1.0
            driver.next_event = self.time + self.batch_seconds
        elif len(self.committed) >= self.total_batches:
            self._at_end(driver)
        else:
            driver.ready_at = -1.0
            self._plan(driver)

    def _at_end(self, driver: SimulatedDriver) -> None:
        """All is read: a bounded fork ends, another waits for more."""
        if driver.stop_asked or self.input.bounded:
            self._end(driver, ExitKind.STOPPED if driver.stop_asked else ExitKind.COMPLETED)
        else:
            driver.next_event = float("inf")

    def _plan(self, driver: SimulatedDriver) -> None:
        self.planned[len(self.planned)] = self.time
        driver.next_event = self.time + self.batch_seconds

    def _end(self, driver: SimulatedDriver, kind: ExitKind, **detail: Any) -> None:
        driver.exit = ExitRecord(kind=kind, ended_at=self.time, **detail)

    # forks

    def declared(self, stream: str, feed: Feed) -> StreamSpec:
        if self.refusal is not None:
            raise self.refusal
        return declared(source=self.source or "kafka", sink=self.sink or "parquet", master=self.master)

    def oracles(self, stream: str, feed: Feed, asked: OracleKind) -> tuple[OracleKind, ...]:
        return (OracleKind.JOB,) if self.twin is None else (OracleKind.JOB, OracleKind.TWIN)

    def make(
        self, run_id: str, stream: str, spec: ForkSpec, feed: Feed, oracles: tuple[OracleKind, ...] = (OracleKind.JOB,)
    ) -> ForkView:
        self._maybe_die("make")
        if self.fork_error is not None:
            raise self.fork_error
        self.forks_made += 1
        made = ForkView(
            stream=f"{stream}__fork",
            origin=stream,
            checkpoint=f"/data/drills/{run_id}/fork/checkpoint",
            output=f"/data/drills/{run_id}/fork/output",
            batch=None,
            unseen=self.total_batches * 4,
            batches_left=self.total_batches,
            input_digest="d" * 64,
            spec=replace(self.declared(stream, feed), name=f"{stream}__fork"),
            oracles=oracles,
        )
        return self.input.made(made, feed)

    def restored(self, run_id: str, stream: str, savepoint: str) -> ForkView:
        made = self.make(run_id, stream, ForkSpec(), Feed.ORIGIN, (OracleKind.TWIN,))
        assert self.savepoints.there is not None
        return replace(made, batch=self.savepoints.there.batch)

    def renew(self, run_id: str, fork: ForkView) -> ForkView:
        self._maybe_die("before_renew")
        return self.input.renewed(fork)

    def outside(self, run_id: str, stream: str) -> Outside:
        return self.left_outside

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        self._maybe_die("clear")
        if self.clear_failures:
            self.clear_failures -= 1
            raise CheckpointError("the broker does not answer")
        self.cleared += 1
        return ["fork/input", "fork/checkpoint/state"] if fork else []

    # drivers

    def start(self, fork: ForkView, run_id: str) -> DriverRecord:
        self._maybe_die("before_start")
        if self.start_error is not None:
            raise self.start_error
        assert all(driver.exit for driver in self.drivers.values()), "two drivers at once on one checkpoint"
        return self._launch(fork, run_id)

    def _launch(self, fork: ForkView, run_id: str) -> DriverRecord:
        name = f"d{len(self.drivers) + 1}"
        record = DriverRecord(
            driver_id=name,
            stream=fork.stream,
            checkpoint=fork.checkpoint,
            token=len(self.drivers) + 1,
            folder=f"/data/drivers/{name}",
            launched_by=f"drill:{run_id}",
            launched_at=self.time,
            process=ProcessIdentity(host="here", pid=4000 + len(self.drivers), started_at=77),
        )
        ready = self.time + self.startup
        self.drivers[name] = SimulatedDriver(record=record, ready_at=ready, next_event=ready)
        self.input.forks[name] = fork
        self.spark.lives[name] = self.spark.python
        self._maybe_die("after_start")
        return record

    def latest(self, fork: ForkView) -> DriverRecord | None:
        return list(self.drivers.values())[-1].record if self.drivers else None

    def observe(self, driver_id: str) -> DriverView:
        driver = self.drivers[driver_id]
        return DriverView(alive=driver.exit is None, record=driver.record, exit=driver.exit)

    def request_stop(self, fork: ForkView, driver_id: str, *, by: str, reason: str) -> None:
        self.signals.append(f"stop {driver_id}: {reason}")
        driver = self.drivers[driver_id]
        driver.stop_asked = True
        if driver.stop_asked_at is None:
            driver.stop_asked_at = self.time
        if self.stop_cuts and len(self.planned) > len(self.committed):
            self._end(driver, ExitKind.STOPPED, cut_batch=True)
        elif len(self.planned) == len(self.committed) and not self.stop_is_late:
            self._end(driver, ExitKind.STOPPED, cut_batch=False)
        self._maybe_die("after_stop")

    def kill(self, driver_id: str) -> bool:
        self._maybe_die("before_kill")
        self.signals.append(f"kill {driver_id}")
        if self.kill_delay:
            self.sleep(self.kill_delay)
        driver = self.drivers[driver_id]
        if driver.exit is not None:
            return False
        if self.kill_works:
            self._end(driver, ExitKind.KILLED, signal=int(signal.SIGKILL), exit_code=-9)
        self._maybe_die("after_kill")
        return True

    def hold_batch(self, driver_id: str, wanted: bool) -> None:
        """The phase after a write is long enough here."""

    def is_running(self, driver_id: str) -> bool:
        return self.drivers[driver_id].exit is None

    def take_over(self, fork: ForkView, run_id: str, driver_id: str, *, deadline: float) -> DriverRecord | None:
        """The lease of the driver that stands still expires after `lease` seconds."""
        self._maybe_die("before_take_over")
        self.sleep(min(self.lease, deadline - self.time))
        if self.time >= deadline:
            return None
        struck = self.drivers[driver_id]
        record = self._launch(fork, run_id)
        struck.replaced = True
        return replace(record, token=record.token if self.token_grows else struck.record.token)

    def freeze(self, driver_id: str, *, supervised: bool = True) -> bool:
        """Time passes for it until it stands still: it may have written more by then."""
        self.signals.append(f"freeze {driver_id}")
        self.sleep(self.freeze_delay)
        driver = self.drivers[driver_id]
        if driver.exit is not None or not self.freezes:
            return False
        driver.frozen_at = self.time if self.stands_still else None
        self._maybe_die("after_freeze")
        return True

    def thaw(self, driver_id: str) -> bool:
        driver = self.drivers[driver_id]
        if driver.exit is not None or driver.frozen_at is None:
            return False
        if driver.replaced:
            driver.frozen_at, driver.next_event = None, float("inf")
            if self.fenced:
                self._end(driver, ExitKind.FENCED, message="another driver has the lease")
            return True
        driver.next_event += self.time - driver.frozen_at
        if (running := max(self.planned, default=None)) not in self.committed and running is not None:
            self.planned[running] += self.time - driver.frozen_at
            self.stood[running] = self.stood.get(running, 0.0) + self.time - driver.frozen_at
        driver.frozen_at = None
        return True

    # database

    @contextmanager
    def listen(self, fork: ForkView) -> Iterator[World]:
        yield self

    def next(self, timeout: float) -> int | None:
        """The running batch, `database_lead` seconds before its commit in the checkpoint."""
        end = self.time + timeout
        while self.time < end:
            running = max(self.planned, default=None)
            driver = self._acts_next()
            due = driver is not None and driver.ready_at < 0 and driver.next_event - self.time <= self.database_lead
            if due and running is not None and running not in self.committed and running not in self.in_database:
                self.in_database.add(running)
                return running
            self.sleep(min(0.05, end - self.time))
        return None

    def newest(self, fork: ForkView) -> int | None:
        return max(self.in_database | self.committed.keys(), default=None) if self.database_keeps else None

    @contextmanager
    def hold(self, fork: ForkView) -> Iterator[SimulatedTable]:
        self.table.locked_at = self.time
        try:
            yield self.table
        finally:
            self.table.locked_at = None

    def block(self, fork: ForkView) -> None:
        self._maybe_die("before_block")
        self.blocked = True
        self._maybe_die("after_block")

    def unblock(self, fork: ForkView) -> bool:
        blocked, self.blocked = self.blocked, False
        return blocked

    # health, verification

    def evaluate(self, fork: ForkView, checks: Collection[str]) -> Sequence[Verdict]:
        known = self.health_after if self.health_after is not None and len(self.drivers) > 1 else self.health
        names = ("state_size", "checkpoint_duration", "state_update_latency", "state_cleanup_time", "memory_usage")
        verdicts = [
            Verdict(
                stream=fork.stream,
                check=name,
                status=known.get(name, Status.OK),
                at=self.time,
                reason=f"{name} as simulated",
                evidence={"batches": (1, 2)},
            )
            for name in names
        ] + [*self.input.verdicts(fork), *self.files.verdicts(fork)]
        return [verdict for verdict in verdicts if verdict.check in checks]

    def reconcile(
        self,
        fork: ForkView,
        *,
        lost: Sequence[TopicRange] = (),
        copies: Copies | None = None,
        clock_steps: Sequence[float] = (),
    ) -> Reconciliation:
        self._maybe_die("reconcile")
        self.copies, self.clock_steps = copies, tuple(clock_steps)
        if self.verifier_error is not None:
            raise self.verifier_error
        return self.input.reconciled(self.reconciliation, lost)

    def compare_with_twin(
        self,
        run_id: str,
        fork: ForkView,
        verification: VerificationSpec,
        *,
        within: float,
        clock_steps: Sequence[float] = (),
    ) -> TwinReport:
        self._maybe_die("twin")
        assert self.twin is not None
        if isinstance(self.twin, StreamwardenError):
            raise self.twin
        return self.twin

    def judge(self, reconciliation: Reconciliation, min_records: int) -> Judgement:
        success = reconciliation.exactly_once if self.judge_says is None else self.judge_says
        return Judgement(
            judge="simulated judge 1.0", success=success, expectations=({"name": "x", "success": success},)
        )

    def judge_audit(self, audit: Audit, min_records: int) -> Judgement:
        success = audit.outcome is Outcome.BALANCED if self.judge_says is None else self.judge_says
        return Judgement(judge="simulated judge 1.0", success=success)

    def _maybe_die(self, where: str) -> None:
        self.passed.add(where)
        if self.die_at == where:
            self.die_at = None
            raise Killed(where)


OF_FILES = {"input_gone", "input_doubled", "input_late", "input_out_of_order"}
"""The faults of an input of files."""

OF_FOLDERS = {"sink_failing", "sink_slow"}
"""The faults of a sink of files."""
