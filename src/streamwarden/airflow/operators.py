"""StreamOperator: keeps one stream running inside one DAG run, with no worker slot held.

A plain SparkSubmitOperator ties the driver's life to its task process. This one starts the driver detached (or finds
the living one) and defers; whatever happens to the task, its supervisor, the triggerer or the scheduler, the next try
reattaches. Restarts with back-off, stops and starts happen inside the run.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

from streamwarden.airflow import cluster_mode
from streamwarden.airflow.links import StreamPageLink
from streamwarden.airflow.notes import down, restarted, stopped, waiting, write_note
from streamwarden.airflow.submitting import Submission, deploy_mode, own_connection, submission
from streamwarden.airflow.triggers import DriverTrigger, StandbyTrigger, StoppedTrigger
from streamwarden.airflow.unpausing import HURRIED, remember_server
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import ConfigError, HostUnfit, JobError, LeaseHeld, ProcessError, StoreError, StreamwardenError
from streamwarden.health.incidents.stream_incidents import close_incident, open_incident
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.restarter import Supervisor, supervised
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.lifecycle.supervision.supervisor import (
    Down,
    Finished,
    Hold,
    Launch,
    Move,
    Wait,
    Watch,
    gave_up,
    missed_stop,
    next_move,
)
from streamwarden.services.fleet.applications import Application, application_of
from streamwarden.services.fleet.applications.log_copy import copy_log
from streamwarden.services.fleet.applications.watch import ResourceWatch
from streamwarden.services.fleet.exits.log_records import LogRecords
from streamwarden.services.fleet.exits.log_tail import last_text
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import RestartPolicy, StreamSpec
from streamwarden.units import format_duration

CLAIM_UNDER_WAY: Final = 5.0
"""Seconds to wait when another launch holds the lease and has no driver to follow yet."""

LAST_WORDS: Final = 8 * 1024
"""Bytes of an ended driver's log that its task's log keeps."""

STOPPED: Final = "stopped"
"""Id of the task that waits while the stream is stopped on purpose."""

REATTACH: Final = {"retries": 100_000, "retry_delay": timedelta(seconds=5)}
"""A retry never starts a second driver, it only finds the living one: retries are many and soon."""


class StreamOperator(SparkSubmitOperator):
    """Keeps the stream `stream` of the project folder `project` running.

    Every parameter of SparkSubmitOperator works and wins over the stream's YAML: `conf`, `packages`, `jars`,
    `env_vars`, `driver_memory`, … and `conn_id`, whose master is then used. `application_args` are appended to the
    stream's `args`. The application itself is the stream's `job`.
    """

    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, stream: str, project: str, conn_id: str | None = None, **kwargs: Any) -> None:
        if "application" in kwargs:
            raise ConfigError(
                f"application={kwargs['application']!r}",
                expected="no application: the stream's `job` is what runs",
                where=f"StreamOperator of {stream}",
                next_step="name the file as `job` in the stream's YAML",
            )
        kwargs.setdefault("name", stream)
        super().__init__(conn_id=conn_id or own_connection(stream), **kwargs)
        self.stream = stream
        self.project = project
        self.own_connection = conn_id is None
        self._order: Submission | None = None
        self._resources: ResourceWatch | None = None
        self._waited = False

    def execute(self, context: Any) -> None:
        remember_server(workspace(self.project))
        self._go_on(context, watched=None)

    def resume(self, context: Any, event: dict[str, Any] | None = None) -> None:
        """Continue after a trigger fired: a driver ended, the back-off is over, or a person made a request."""
        event = event or {}
        if "resume" in event:
            self._waited = True
            self.log.info("going on with %s: %s", self.stream, event["resume"])
        self._go_on(context, watched=event.get("driver_id"))

    def on_kill(self) -> None:
        """Never stops the driver: Airflow calls this also when its own parts fail, not only when a person asks."""
        self.log.info(
            "this task process ends, the driver of %s goes on; to stop it, use the DAG stop_stream or "
            "`streamwarden stop %s`",
            self.stream,
            self.stream,
        )

    def _go_on(self, context: Any, *, watched: str | None) -> None:
        space = workspace(self.project)
        spec = self._spec(space)
        if watched is not None:
            self._say_how_it_ended(space, watched)
        move = next_move(
            self.stream,
            spec.restart if isinstance(spec, StreamSpec) else RestartPolicy(),
            drivers=space.store.drivers,
            stops=space.store.stops,
            observe=space.fleet.observe,
            now=time.time(),
            since=context["dag_run"].start_date.timestamp(),
            watched=watched,
        )
        self._carry_out(move, space, spec, context)

    def _carry_out(self, move: Move, space: Workspace, spec: StreamSpec | ConfigError, context: Any) -> None:
        if isinstance(move, Watch | Launch) and isinstance(spec, StreamSpec) and self._in_cluster(spec):
            self._follow_in_cluster(move, space, spec, context)
        elif isinstance(move, Watch):
            self.log.info("reattached to driver %s", move.driver_id)
            self._note_a_restart(move, context)
            self._watch(move.driver_id, space)
        elif isinstance(move, Launch):
            self._launch(move, space, spec, context)
        elif isinstance(move, Wait):
            pause = format_duration(max(0.0, move.until - time.time()))
            self.log.warning("restart %d of %s in %s, after: %s", move.attempt, self.stream, pause, move.reason)
            write_note(self, context, waiting(move), within=HURRIED)
            self._stand_by(until=move.until)
        elif isinstance(move, Hold):
            by, reason = move.state.changed_by, move.state.reason
            raise AirflowSkipException(
                f"{self.stream} was stopped by {by}: {reason}; the task {STOPPED} waits for a start"
            )
        elif isinstance(move, Finished):
            self.log.info("%s ended by itself, all its input is processed", self.stream)
            raise DownstreamTasksSkipped(tasks=[STOPPED])
        else:
            self._leave_down(move, space, context)

    def _launch(self, move: Launch, space: Workspace, spec: StreamSpec | ConfigError, context: Any) -> None:
        if isinstance(spec, ConfigError):
            open_incident(space.store.incidents, self.stream, str(spec), "fix the YAML file", time.time())
            write_note(self, context, down(str(spec), ""))
            raise AirflowFailException(f"{self.stream} is not started, its configuration is broken: {spec}")
        began = time.time()
        self.log.info("launching a driver for %s: %s", self.stream, move.reason)
        try:
            with self._spark_connection(spec):
                order = submission(self, spec, context)
            started = space.fleet.start(
                order.spec, launched_by=_who(context), command=order.command, env=order.env, announce=self.log.warning
            )
        except (LeaseHeld, HostUnfit) as held:
            self.log.info("%s; trying again in %s", held, format_duration(CLAIM_UNDER_WAY))
            self._stand_by(until=time.time() + CLAIM_UNDER_WAY)
        except (ConfigError, JobError, ProcessError) as error:
            self._launch_failed(error, began, space, context)
        else:
            how = "reattached to" if started.reattached else "launched"
            self.log.info("%s driver %s in %s", how, started.record.driver_id, started.record.folder)
            self._note_a_restart(move, context)
            self._watch(started.record.driver_id, space)

    # Cluster mode

    def _in_cluster(self, spec: StreamSpec) -> bool:
        try:
            with self._spark_connection(spec):
                return deploy_mode(self, spec) is DeployMode.CLUSTER
        except ConfigError:  # a launch reports it; a living driver is followed all the same
            return spec.spark.deploy_mode is DeployMode.CLUSTER

    def _follow_in_cluster(self, move: Watch | Launch, space: Workspace, spec: StreamSpec, context: Any) -> None:
        """Submit a driver, or find the one that an earlier try submitted, and stay until it has ended.

        It holds its worker slot meanwhile: the provider's durable mode does not defer.
        """
        if isinstance(move, Watch) and cluster_mode.followed(self, context) is None:
            self.log.info("following driver %s, which another run submitted, by its lease", move.driver_id)
            self._watch(move.driver_id, space)
        began = time.time()
        try:
            with self._spark_connection(spec):
                self._order = submission(self, spec, context)
                cluster_mode.prepare(self, self._order)
                self._note_a_restart(move, context)
                if isinstance(move, Watch):
                    self._watch_resources(move.driver_id, space, self._order)
                failure = self._stay_with_the_application(context)
        except LeaseHeld as held:
            self.log.info("%s; trying again in %s", held, format_duration(CLAIM_UNDER_WAY))
            self._stand_by(until=time.time() + CLAIM_UNDER_WAY)
        except StoreError:
            raise
        except StreamwardenError as error:
            self._launch_failed(error, began, space, context)
        else:
            latest = space.store.drivers.latest(self.stream)
            if latest is not None:
                space.fleet.conclude(latest.driver_id, failure)
                self._keep_log(latest, self._order)
                self._go_on(context, watched=latest.driver_id)

    def _stay_with_the_application(self, context: Any) -> str | None:
        """Wait for its end; returns what the provider says of a failure, None if it ended without one."""
        try:
            self.execute_resumable(context)
        except (AirflowException, RuntimeError) as error:
            # It failed, or the provider no longer follows it: then this try fails, and the next one finds it again.
            if cluster_mode.is_active(self, context):
                raise
            return str(error)
        finally:
            if self._resources is not None:
                self._resources.close()
        return None

    def submit_job(self, context: Any) -> str | None:
        """Submit the driver; the provider calls this when no application of an earlier try is alive."""
        order = self._order
        if order is None:
            raise ProcessError("no submission was prepared", next_step="report this: it is a defect")

        def through(folder: Path) -> str:
            cluster_mode.point_at(self, order.hook, folder, order.spec)
            return str(super(StreamOperator, self).submit_job(context))

        space = workspace(self.project)
        record, application = space.fleet.submit(order.spec, launched_by=_who(context), through=through, env=order.env)
        cluster_mode.forget_the_last_end(self, context)
        self._watch_resources(record.driver_id, space, order)
        self._catch_up(record.driver_id, space)
        self.log.info("submitted driver %s as %s", record.driver_id, application)
        return application

    def _watch_resources(self, driver_id: str, space: Workspace, order: Submission) -> None:
        """Measure how long the cluster keeps the driver waiting. When it runs, it measures what it waits for itself."""

        find = partial(_application, order, driver_id)
        measure = space.store.measurements.add
        self._resources = ResourceWatch(order.spec, find, measure=measure, say=self.log.warning, once=True)
        self._resources.start()

    def _keep_log(self, driver: DriverRecord, order: Submission) -> None:
        """Keep the log that the cluster has of an ended driver, which nobody could read later without its tools."""
        try:
            application = _application(order, driver.driver_id)
            if application is not None and not copy_log(application, Path(driver.folder)):
                self.log.warning("the cluster has no log of driver %s yet", driver.driver_id)
        except (ProcessError, OSError, TimeoutExpired) as error:
            self.log.warning("the log of driver %s is not kept here: %s", driver.driver_id, error)

    def is_job_succeeded(self, status: str) -> bool:
        """Never: a stream that was stopped ended without an error too, and has to run again on request."""
        return False

    @contextmanager
    def _spark_connection(self, spec: StreamSpec) -> Iterator[None]:
        """The Spark connection for the hook to find: the operator's, the stream's, or one of what its file says."""
        if not self.own_connection:
            yield
        elif spec.spark.connection is not None:
            self._conn_id = spec.spark.connection
            yield
        else:
            with _connection_of(self._conn_id, spec.spark.master):
                yield

    def _launch_failed(self, error: StreamwardenError, began: float, space: Workspace, context: Any) -> None:
        """A launch that left a driver's end behind is a failure like any other; one that could not begin is final."""
        latest = space.store.drivers.latest(self.stream)
        if latest is not None and latest.launched_at >= began and latest.exit is not None:
            self.log.error("%s could not be started: %s", self.stream, error)
            self._go_on(context, watched=None)
        else:
            open_incident(space.store.incidents, self.stream, str(error), error.next_step, time.time())
            write_note(self, context, down(str(error), ""))
            raise AirflowFailException(f"{self.stream} could not be started: {error}") from error

    def _leave_down(self, move: Down, space: Workspace, context: Any) -> None:
        verdict = move.verdict
        open_incident(space.store.incidents, self.stream, verdict.reason, verdict.next_step, time.time())
        space.store.drivers.event(gave_up(move))
        write_note(self, context, down(verdict.reason, verdict.next_step))
        raise AirflowFailException(f"{self.stream} stays down: {verdict.reason}; next: {verdict.next_step}")

    def _catch_up(self, driver_id: str, space: Workspace) -> None:
        """Do what the launcher of this driver may have had no time for: a stop request, the end of an incident.

        The record that this DAG follows the driver lets the health monitor distinguish it from one that no supervisor
        restarts.
        """
        missed = missed_stop(self.stream, driver_id, space.store.stops)
        if missed is not None:
            by, reason = missed.changed_by, missed.reason
            self.log.info("%s requested a stop of %s while it was launched: %s", by, self.stream, reason)
            space.fleet.request_stop(self.stream, requested_by=by, reason=reason)
        space.store.drivers.event(supervised(driver_id, Supervisor.DAG, time.time()))
        close_incident(space.store.incidents, self.stream, time.time())

    def _note_a_restart(self, move: Watch | Launch, context: Any) -> None:
        if self._waited:  # its note says that the stream is down
            write_note(self, context, "", within=HURRIED)
        if isinstance(move, Launch) and move.attempt:
            write_note(self, context, restarted(move, time.time()), whole_run=True, within=HURRIED)

    def _watch(self, driver_id: str, space: Workspace) -> None:
        self._catch_up(driver_id, space)
        trigger = DriverTrigger(stream=self.stream, project=self.project, driver_id=driver_id)
        self.defer(trigger=trigger, method_name="resume")

    def _stand_by(self, *, until: float) -> None:
        trigger = StandbyTrigger(stream=self.stream, project=self.project, since=time.time(), until=until)
        self.defer(trigger=trigger, method_name="resume")

    def _say_how_it_ended(self, space: Workspace, driver_id: str) -> None:
        record = space.store.drivers.get(driver_id)
        if record is None or record.exit is None:
            return
        # Airflow truncates the trigger's log file at each deferral; without this the cause of the end would be lost.
        last = last_text(space.fleet.log_path(driver_id), LAST_WORDS).splitlines()
        self.log.info("::group::The last lines of the driver's log")
        for line in LogRecords().of(last):
            self.log.log(line.level, "%s", line.text)
        self.log.info("::endgroup::")
        level = logging.INFO if record.exit.kind in (ExitKind.STOPPED, ExitKind.COMPLETED) else logging.ERROR
        self.log.log(level, "driver %s ended: %s", driver_id, describe(record.exit))
        if record.exit.next_step:
            self.log.log(level, "next: %s", record.exit.next_step)

    def _spec(self, space: Workspace) -> StreamSpec | ConfigError:
        """The stream's spec as its file is now; the error if it is broken: a living driver may still be followed."""
        try:
            return space.stream(self.stream)
        except ConfigError as error:
            return error


class StoppedOperator(BaseOperator):
    """Defers while the stream is stopped on purpose. Its end ends the DAG run, and the next one launches a driver.

    It follows the task that runs the stream, which is skipped when the stream is stopped.
    """

    def __init__(self, *, stream: str, project: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project

    def execute(self, context: Any, event: dict[str, Any] | None = None) -> None:
        state = workspace(self.project).store.stops.desired(self.stream)
        if state is None or state.desired is not Desired.STOPPED:
            raise AirflowSkipException(f"{self.stream} should run: the next run of this DAG launches a driver")
        note = stopped(self.stream, state)
        self.log.info("%s", note)
        write_note(self, context, note)
        self.defer(trigger=StoppedTrigger(stream=self.stream, project=self.project), method_name="execute")


@contextmanager
def _connection_of(conn_id: str, master: str) -> Iterator[None]:
    """Publish the stream's master as a connection, through Airflow's own environment backend, for the hook to find."""
    key = f"AIRFLOW_CONN_{conn_id.upper()}"
    if key in os.environ:  # a person defined one for this stream: it wins
        yield
        return
    os.environ[key] = Connection(conn_id=conn_id, conn_type="spark", host=master).as_json()
    try:
        yield
    finally:
        del os.environ[key]


def _application(order: Submission, driver_id: str) -> Application | None:
    """The application of a driver in cluster mode. Raises ProcessError if nothing says where its manager is."""
    return application_of(order.spec, driver_id, os.environ, cluster_mode.manager_address(order.hook))


def _who(context: Any) -> str:
    ti = context["ti"]
    return f"airflow {ti.dag_id} {ti.run_id} try {ti.try_number}"
