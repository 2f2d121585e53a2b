"""The program that spark-submit runs: one driver of one stream. Argument: the driver's folder.

Order: adopt the lease, watch for sessions, start the control loop, run the job, write the outcome.
"""

import contextlib
import os
import sys
import threading
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # spark-submit put this file's folder first: its modules must not shadow those of the job.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]

from pyspark.sql import SparkSession

from streamwarden.adapters.connections import remember_all
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.errors import ConfigError, JobError, LeaseLost, ScriptFailed, SinkInterrupted, StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.failures.error_chain import Chain
from streamwarden.lifecycle.failures.exits import FENCED_CODE, failure
from streamwarden.lifecycle.groups.group import ended_with_group
from streamwarden.lifecycle.job_files import has_build
from streamwarden.redaction import remember, secrets_of
from streamwarden.services.analysis.jobs import job_facts
from streamwarden.services.fleet.applications import application_of
from streamwarden.services.fleet.applications.watch import ResourceWatch
from streamwarden.sources.base import StoredSource
from streamwarden.spark.driver import failures
from streamwarden.spark.driver.cluster_manager import what_is_away
from streamwarden.spark.driver.control import Control, Ending, Reason
from streamwarden.spark.driver.custom_state_store import require_provider
from streamwarden.spark.driver.foreach_errors import ForeachErrors
from streamwarden.spark.driver.handovers import Handovers
from streamwarden.spark.driver.jobs import load_build, run_script
from streamwarden.spark.driver.outside import watch_outside
from streamwarden.spark.driver.quarantine import Quarantines
from streamwarden.spark.driver.query_registry import QueryRegistry
from streamwarden.spark.driver.sessions import Sessions
from streamwarden.spark.driver.start_gate import StartGate
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.executors.application_watch import ApplicationWatch, Gone
from streamwarden.spark.executors.watch import ExecutorWatch
from streamwarden.spark.groups.engine import Engine
from streamwarden.spark.groups.joining import join
from streamwarden.spark.internals.jvm import jvm_clock
from streamwarden.spark.internals.listener import QueryEvent, QueryProgressed, QueryStarted
from streamwarden.spark.internals.skip_numpy import without_numpy
from streamwarden.spark.log import say
from streamwarden.spark.scripts.declared_settings import ScriptStarts
from streamwarden.spark.scripts.fork_fence import fence_fork
from streamwarden.spark.scripts.redirection import ForkedStarts
from streamwarden.spark.sinks import batch_writer, start_query
from streamwarden.spark.standby import pooled
from streamwarden.spark.standby.pool_watch import PoolWatch
from streamwarden.spark.standby.standing_by import stand_by
from streamwarden.spark.standby.watch import StandbyWatch
from streamwarden.spark.watches.fence import FenceWatch
from streamwarden.spark.watches.heartbeat import Heartbeat
from streamwarden.spark.watches.storage import StorageWatch
from streamwarden.stream.spec import StreamSpec

CODES = {ExitKind.STOPPED: 0, ExitKind.COMPLETED: 0, ExitKind.FENCED: FENCED_CODE, ExitKind.KILLED: 143}


class Runner:
    """One driver from its spec to its outcome.

    Args:
        url: the store's.
        session: that of a standby, which waited for this, or of a driver in a group; None: the job opens the first one.
        engine: the driver's processes; None: those that spark-submit started.
    """

    def __init__(self, folder: Path, url: str | None, session: Any | None = None, engine: Engine | None = None) -> None:
        self._folder = folder
        self._session = session
        document = files.read_spec(folder)
        lease = files.read_lease(folder)
        engine = engine or Engine.alone()
        if document is None or lease is None or url is None or engine is None:
            raise ConfigError(
                "this folder is not a driver folder, or the environment lacks STREAMWARDEN_STORE_URL",
                expected=f"{files.SPEC} and {files.LEASE}, written by the launcher",
                where=str(folder),
                next_step="start drivers with `streamwarden start`",
            )
        remember(*secrets_of(document))
        remember_all(os.environ)
        self._spec: StreamSpec = spec_from_dict(document)
        self._engine: Engine = engine
        process = engine.process
        self._token = lease.token_of(self._spec.checkpoint)
        if files.read_process(folder) is None:
            files.write_process(folder, process)
        self._quarantines = Quarantines(self._spec, report=lambda gap: self._link.event(files.QUARANTINE_GAP, **gap))
        job = job_facts(self._spec)
        self._queries = job.queries
        starts = job.queries if self._spec.fork is None else None  # a fork names each query, also the only one
        self._registry = QueryRegistry(self._spec, folder.name, starts=starts, alone=job.module)
        self._link = StoreLink(
            url,
            stream=self._spec.name,
            folder=folder,
            lease=lease,
            process=process,
            watcher=self._quarantines.seen,
            registry=self._registry,
            beats=lambda: self._heartbeat.beats,
        )
        self._heartbeat = Heartbeat(
            jvm_clock(), folder, process, bound=self._spec.restart.unresponsive_after, report=self._link.event
        )
        self._fence = FenceWatch(
            lambda: self._link.lease,
            lambda: self._link.renewed_at,
            self._link.lose,
            connection=self._spec.storage.connection,
        )
        self._storage = StorageWatch(
            self._spec.checkpoint,
            self._spec.storage.connection,
            process,
            bound=self._spec.restart.unresponsive_after,
            ask_elsewhere=self._link.ask_elsewhere,
            reached_by=self._link.reached_by,
            give_up=self._link.give_up,
        )
        self._executors = ExecutorWatch(self._spec.name, self._link)
        self._foreach_errors = ForeachErrors()
        self._application = ApplicationWatch(self.end_now)
        application = partial(application_of, self._spec, folder.name, dict(os.environ))
        self._resources = ResourceWatch(self._spec, application, measure=self._link.measure, say=say)
        self._sessions = Sessions(self._take, self._opened, before_stop=lambda: self._control.await_boundaries())
        self._control = Control(
            self._spec,
            folder,
            link=self._link,
            sessions=self._sessions,
            registry=self._registry,
            engine=engine,
            finish=self.end_now,
        )
        self._gate = StartGate(
            self._registry,
            self._link,
            self._sessions,
            refuse=self._control.refuse,
            ending=lambda: self._control.ending is not None,
        )
        self._standby = StandbyWatch(self._spec, folder, self._link, ending=lambda: self._control.ending is not None)
        self._pool = PoolWatch(self._spec, folder, self._link, ending=lambda: self._control.ending is not None)
        self._built = False
        self._writing = threading.Lock()
        self._outcome: ExitRecord | None = None

    def run(self) -> int:
        """Run the driver to its end; returns the exit code."""
        error: BaseException | None = None
        try:
            without_numpy()
            self._link.bind()
            self._registry.learn(self._link.known_queries())
            self._link.start()
            if self._link.needs_fence:
                self._fence.start()
                self._storage.start()
            self._heartbeat.start()
            self._control.start()
            self._resources.start()
            self._sessions.watch()
            self._application.watch()
            self._foreach_errors.watch()
            Handovers(self._folder).watch()
            if self._session is not None:
                self._sessions.attach(self._session)
            self._standby.start()
            self._pool.start()
            self._run_job()
        except (Exception, KeyboardInterrupt) as raised:
            error = raised
        record = self._conclude(error)
        # In this order: the last reports come in and are stored; then the malformed rows that they count are kept.
        self._link.await_last_report()
        self._link.close()
        self._quarantines.close()
        return CODES.get(record.kind, 1)

    def end_now(self) -> None:
        """Write the outcome and end this process; the JVM follows, or in a group ends the queries."""
        record = self._conclude(None)
        self._link.close(timeout=2.0)
        sys.stderr.flush()
        os._exit(CODES.get(record.kind, 1))

    # The job

    def _run_job(self) -> None:
        job = Path(self._spec.job)
        fence_fork(self._spec)
        watch_outside(self._spec)
        if has_build(job):
            self._run_build(job)
        else:
            self._run_script(job)

    def _run_build(self, job: Path) -> None:
        build = load_build(job)
        spark = SparkSession.builder.getOrCreate()
        require_provider(spark, self._spec)
        if isinstance(self._spec.source, StoredSource):
            self._spec.source.require_planned(self._spec)
        if self._has_committed_its_last():
            return  # the driver before this one was killed between its last batch and its end
        built = build(spark, self._spec)
        writer = batch_writer(self._spec, self._token, lambda: self._control.ending is not None)
        query = start_query(built, self._spec, writer)
        self._built = True
        self._quarantines.start(spark)
        query.awaitTermination()

    def _has_committed_its_last(self) -> bool:
        spec = self._spec
        return spec.last_batch is not None and spec.is_last(log_position(checkpoint_of(spec)).committed)

    def _run_script(self, job: Path) -> None:
        """Run the script in this thread; it may wait for its query itself, or return and leave it running."""
        if self._spec.fork is None:
            ScriptStarts(self._spec, starts=self._queries, refuse=self._refuse_start).watch()
        else:
            ForkedStarts(self._spec, self._spec.fork, refuse=self._refuse_start).watch()
        run_script(job, self._spec.args)
        while self._sessions.active_queries():
            time.sleep(0.25)
        if self._link.started is None and self._gate.refused is None:
            raise JobError(
                "the script ended and started no streaming query",
                expected="a script that starts a query with writeStream … start()",
                where=str(job),
                next_step="correct `job:`, or run this script with spark-submit: it is not a stream",
            )

    def _refuse_start(self, error: JobError) -> None:
        """On the script's thread, which raises `error` when the script's other queries are at their boundaries."""
        self._gate.refuse(error)
        self._control.await_boundaries()

    def _opened(self, session: Any) -> None:
        self._executors.opened(session)
        self._application.opened(session)

    def _take(self, event: QueryEvent) -> None:
        """On Spark's listener thread. `QueryStarted` is posted before the query's first batch, which waits for it."""
        if not self._gate.lets_pass(event):
            return
        if isinstance(event, QueryStarted):
            self._built = True
        if isinstance(event, QueryProgressed):
            self._storage.committed()
            self._standby.committed()
            self._pool.committed()
        self._link.emit(event)

    # The end

    def _conclude(self, error: BaseException | None) -> ExitRecord:
        """Determine why the driver ended and write the outcome, once."""
        with self._writing:
            if self._outcome is None:
                self._outcome = self._judge(error)
                say(f"{self._outcome.kind}: {self._outcome.message}")
                try:
                    files.write_outcome(self._folder, self._outcome)
                except OSError as full:
                    say(f"outcome.json could not be written: {full}")
            self._control.finished.set()
            self._fence.close()
            self._storage.close()
            self._heartbeat.close()
            self._executors.close()
            self._application.close()
            self._resources.close()
            self._standby.close(self._outcome, self._control.ending)
            self._pool.close(self._outcome, self._control.ending)
            return self._outcome

    def _judge(self, error: BaseException | None) -> ExitRecord:
        now = time.time()
        ending = self._control.ending
        cut = None if ending is not None and ending.reason is Reason.TERMINATED else self._cut_batch()
        engine = self._engine
        if engine.group is not None and engine.is_going(error, stopped=self._application.stopped() is not None):
            return ended_with_group(engine.group, engine.jvm, at=now, cut_batch=self._cut_batch())
        refused = self._gate.refused
        if refused is not None:
            return turned_away(refused, ending, at=now, cut_batch=cut)
        if self._application.gone is not None:
            return self._without_application(self._application.gone, error, now, cut)
        if isinstance(error, LeaseLost):
            ending = Ending(Reason.LEASE_LOST, str(error))
        if ending is not None and (error is None or ending.reason is not Reason.STOP_REQUESTED):
            return ended(ending, at=now, cut_batch=cut)
        gone = self._application.stopped()
        if gone is not None:  # what a batch or the job failed of is a consequence
            return self._without_application(gone, error, now, cut)
        if isinstance(error, ScriptFailed):  # a query that died is why, and its report may be under way
            self._link.await_last_report()
        died = next((event for event in list(self._link.terminated.values()) if event.error), None)
        if (error or died) is not None and (lost := self._link.lost_by_now()) is not None:
            # A driver that was paused goes on in the middle of a batch, and finds it committed by its successor.
            return ended(Ending(Reason.LEASE_LOST, str(lost)), at=now, cut_batch=cut)
        if error is not None and not (isinstance(error, ScriptFailed) and died):
            behind, chain = self._foreach_errors.explain(error)
            if isinstance(behind, LeaseLost):
                return ended(Ending(Reason.LEASE_LOST, str(behind)), at=now, cut_batch=cut)
            if ending is not None and isinstance(behind, SinkInterrupted):
                return ended(ending, at=now, cut_batch=cut)
            return self._failed(error, behind, chain, now, cut)
        if died is not None:
            behind, chain = self._foreach_errors.explain_query(died.run_id)
            error_class, message = failures.from_spark(died.error or "", died.error_class, self._spec.job)
            if behind is not None and failures.says_more(behind):
                error_class, message = failures.describe(behind, self._spec.job)
            return failure(error_class, message, at=now, cut_batch=cut, built=True, chain=chain)
        return ExitRecord(
            kind=ExitKind.COMPLETED,
            ended_at=now,
            message="the query ended by itself" + (": all its input is processed" if self._spec.ends else ""),
            cut_batch=cut,
        )

    def _without_application(self, gone: Gone, error: BaseException | None, now: float, cut: bool | None) -> ExitRecord:
        if error is not None:
            traceback.print_exception(error)
        return failure(gone.error_class, gone.message, at=now, cut_batch=cut, built=True)

    def _failed(
        self, error: BaseException, behind: BaseException | None, chain: Chain, now: float, cut: bool | None
    ) -> ExitRecord:
        traceback.print_exception(error)
        error_class, message = failures.describe(error, self._spec.job, behind)
        away = what_is_away(self._spec.spark.master)
        record = failure(error_class, message, at=now, cut_batch=cut, built=self._built, chain=chain, away=away)
        source = behind if isinstance(behind, StreamwardenError) else error
        next_step = getattr(source, "next_step", "") if isinstance(source, StreamwardenError) else ""
        if not next_step or isinstance(source, ScriptFailed):
            return record
        return replace(record, next_step=next_step)

    def _cut_batch(self) -> bool | None:
        queries = self._registry.records()
        if self._spec.trigger.real_time is not None or any(query.trigger.real_time for query in queries):
            ending = self._control.ending  # the logs agree while a batch runs: only a stop knows its boundary
            return False if ending is not None and ending.reason is Reason.STOP_REQUESTED else None
        places = {query.checkpoint for query in queries} or {self._spec.checkpoint}
        with contextlib.suppress(StreamwardenError, OSError):
            return any(log_position(open_path(place)).gap > 0 for place in places)
        return None


def ended(ending: Ending, *, at: float, cut_batch: bool | None) -> ExitRecord:
    """The record of a driver that was made to end. Pure."""
    request = ending.request
    if ending.reason is Reason.LEASE_LOST:
        return ExitRecord(
            kind=ExitKind.FENCED,
            ended_at=at,
            error_class="LeaseLost",
            message=ending.detail,
            cut_batch=cut_batch,
            next_step="nothing to do if the new holder runs; `streamwarden status` shows it",
        )
    if ending.reason is Reason.STOP_REQUESTED and request is not None:
        return ExitRecord(
            kind=ExitKind.STOPPED,
            ended_at=at,
            message=f"stopped by {request.requested_by}: {request.reason}",
            cut_batch=cut_batch,
            next_step="`streamwarden start` runs it again",
        )
    asked = (
        f"a stop was requested by {request.requested_by} ({request.reason}) and the batch did not end in time"
        if request is not None
        else "no stop was requested"
    )
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=at,
        signal=15,
        message=f"SIGTERM: {asked}",
        cut_batch=cut_batch,
        next_step="nothing is lost: an interrupted batch runs again at the next start",
    )


def turned_away(refused: StreamwardenError, ending: Ending | None, *, at: float, cut_batch: bool | None) -> ExitRecord:
    """The record of a driver that refused a query before its first batch. Pure.

    A driver that was terminated or replaced meanwhile ended for that reason: the refusal may be a consequence of it.
    Only a query that does not belong to this stream is refused at each start.
    """
    if isinstance(refused, LeaseLost):
        ending = Ending(Reason.LEASE_LOST, str(refused))
    if ending is not None and ending.reason in (Reason.TERMINATED, Reason.LEASE_LOST):
        return ended(ending, at=at, cut_batch=cut_batch)
    lasting = isinstance(refused, JobError)
    chain = failures.chain_of(refused)
    record = failure(type(refused).__name__, str(refused), at=at, cut_batch=cut_batch, built=not lasting, chain=chain)
    return replace(record, next_step=refused.next_step or record.next_step)


def _prepared(folder: Path) -> tuple[Path, Any | None, Engine | None]:
    """The folder of the driver, and the session of a standby, once it is promoted, or of a driver of a group, with the
    engine of that one; no session for any other driver, and for a script."""
    if files.is_pooled(folder):
        without_numpy()
        return *pooled.stand_by(folder), None
    waits = any((folder / name).exists() for name in (files.STANDBY, files.DISMISSED))
    document = files.read_spec(folder) or {}
    group = document.get("group")
    if not waits and group is None:
        return folder, None, None
    remember(*secrets_of(document))
    remember_all(os.environ)
    without_numpy()
    if group is None:
        return folder, stand_by(folder, Path(document["job"])), None
    membership = join(spec_from_dict(document), folder)
    _OPEN.append(membership.connection)
    return folder, membership.session, membership.engine


_OPEN: list[Any] = []
"""The connection to the host of a group, open until this process ends."""


def main(argv: list[str]) -> int:
    """Run the driver of the folder `argv[1]`, or of the one that a standby of a pool gets; returns the exit code.

    An unusable folder is an outcome too.
    """
    folder = Path(argv[1])
    url = os.environ.pop("STREAMWARDEN_STORE_URL", None)  # not for the job: a twin has no store
    try:
        folder, session, engine = _prepared(folder)
        runner = Runner(folder, url, session, engine)
    except StreamwardenError as error:
        say(str(error))
        with contextlib.suppress(OSError):
            kind, chain = type(error).__name__, failures.chain_of(error)
            record = failure(kind, str(error), at=time.time(), cut_batch=None, built=False, chain=chain)
            files.write_outcome(folder, record)
        return 1
    return runner.run()


if __name__ == "__main__":
    status = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the job or of py4j must not keep a driver alive whose outcome is written.
    os._exit(status)
