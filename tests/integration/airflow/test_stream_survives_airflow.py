"""A stream under real Airflow components and a real Spark driver, while parts of Airflow die around it.

One installation and one stream serve all scenarios; each leaves the stream running as it found it. In every one of them
the question is the same: is it still the same driver, and is it the only one?
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.drills.records.journal import DrillStatus
from streamwarden.drills.state import RunState
from streamwarden.health.check_relations import EVERYWHERE
from streamwarden.health.evaluations import Evaluator
from streamwarden.health.incidents.stream_incidents import resolve
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.restarter import GAVE_UP
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.workspace import Workspace
from streamwarden.verification.comparing.balance import Outcome as AuditOutcome
from support.airflow.harness import CLOCKED, Airflow, running, wait_for
from support.airflow.installation import COUNTED, LONG, Installation
from support.airflow.kills import kill_at_launch, killed_restart, succeeds
from support.airflow.live_drill import KILL_LIVE, LIVE_DRILL, WHO, answered
from support.airflow.project import Producer, add_stream, make_project

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Airflow up, no stream started yet."""
    root = tmp_path_factory.mktemp("installation")
    project = make_project(root / "project")
    with add_stream(project, "counted").open("a") as file:
        file.write("audit: {share: 1, batches: 20}\n")  # without pauses, and few: a live drill waits for two audits
    (project / "config" / "drills" / "kill_live.yaml").write_text(KILL_LIVE)
    add_stream(project, "doomed", job="raising.py", initial="1s", budget=1)
    add_stream(project, "wrong", job="wrong.py")
    airflow = Airflow(root / "airflow", project, root / "data")
    space = Workspace.open(project, root / "data", environ={})
    producer = Producer(root / "data" / "input" / "counted")
    Producer(root / "data" / "input" / "doomed").publish(1)
    Producer(root / "data" / "input" / "wrong")
    producer.publish(3)
    try:
        with running(airflow, CLOCKED):
            wait_for(
                "the DAGs",
                lambda: {COUNTED, "stream_doomed", "stream_wrong", "stop_stream"} <= airflow.dag_ids(),
                timeout=LONG,
            )
            yield Installation(airflow, space, producer)
    finally:
        for stream in ("counted", "doomed", "wrong"):
            space.fleet.stop(stream, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
        space.close()


def test_kill_of_the_task_process_while_it_launches(installation: Installation) -> None:
    """The driver was just born when its task process is killed: the next try finds it and starts no second one."""
    airflow = installation.airflow
    airflow.pause(COUNTED, False)
    driver_id = kill_at_launch(installation, None)
    after = installation.live_driver()
    assert after.driver_id == driver_id, installation.story()
    tries, task = installation.try_number(), airflow.task(COUNTED)
    assert tries >= 2
    assert task is not None
    logs = [airflow.log(COUNTED, task, each) for each in range(2, tries + 1)]
    assert any(f"reattached to driver {driver_id}" in log for log in logs)
    installation.unharmed(after)


def test_the_tasks_log_shows_the_drivers_log_and_no_slot_is_held(installation: Installation) -> None:
    """The waiting is done by a trigger: no task process is there, and the log goes on."""
    record = installation.live_driver()
    assert installation.airflow.runner_of(COUNTED) is None
    task = installation.airflow.task(COUNTED)
    assert task is not None
    line = _a_line_of(record)
    wait_for(
        f"{line!r} in the task's log",
        lambda: line in installation.airflow.log(COUNTED, task, task["try_number"]),
        timeout=LONG,
    )


def test_kill_of_the_triggerer(installation: Installation) -> None:
    """A new triggerer takes the trigger over; no line of the driver's log is shown twice."""
    before, airflow = installation.live_driver(), installation.airflow
    airflow.kill("triggerer")
    installation.commits_again()
    airflow.sweep("triggerer")
    airflow.start("triggerer")
    installation.unharmed(before)
    log = Path(before.folder) / "driver.log"
    wait_for("the trigger to have shown it all", lambda: _shown(log) == log.stat().st_size, timeout=LONG)
    task = airflow.task(COUNTED)
    assert task is not None
    line = _a_line_of(before)
    shown = airflow.log(COUNTED, task, task["try_number"]).splitlines()
    assert sum(line == other for other in shown) == log.read_text().splitlines().count(line)


@pytest.mark.full  # in the first tier dags/test_stream_triggers: a clear leaves the driver; the kill above: reattached
def test_a_cleared_task_reattaches(installation: Installation) -> None:
    """Clearing is no stop and no start."""
    before, airflow = installation.live_driver(), installation.airflow
    task = airflow.task(COUNTED)
    assert task is not None
    airflow.clear(COUNTED, task)
    wait_for("the next try", lambda: installation.try_number() > task["try_number"], timeout=LONG)
    installation.unharmed(before)
    assert installation.space.store.stops.desired("counted") is None


@pytest.mark.full  # in the first tier airflow/test_up kills the scheduler of a stream
def test_a_scheduler_killed_over_a_running_task_is_replaced(installation: Installation) -> None:
    """Its task is an orphan: reset or adopted, it ends up following the same driver."""
    before, airflow = installation.live_driver(), installation.airflow
    task = airflow.task(COUNTED)
    assert task is not None
    airflow.clear(COUNTED, task)
    wait_for("the task process", lambda: airflow.runner_of(COUNTED), timeout=LONG, poll=0.02)
    airflow.kill("scheduler")
    airflow.start("scheduler")
    installation.unharmed(before)


@pytest.mark.full  # in the first tier dags/test_stream_triggers follows a driver without it
def test_an_api_server_that_is_gone_for_longer_than_heartbeats_allow(installation: Installation) -> None:
    """20 seconds without it; with these settings Airflow kills a task after 14 s that cannot report: three heartbeats
    fail, each after five tries in four seconds. The driver goes on."""
    before, airflow = installation.live_driver(), installation.airflow
    committed = installation.committed()
    airflow.stop("api-server")
    back = time.monotonic() + 20
    try:
        installation.commits_again()
        wait_for("20 seconds", lambda: time.monotonic() > back, timeout=LONG)
        assert not airflow.answers()
        installation.commits_again()
        assert installation.committed() >= committed + 2
        assert installation.jvms() == [before.process.pid if before.process else None]
    finally:
        airflow.start("api-server")
        wait_for("the API server", airflow.answers, timeout=LONG)
    installation.unharmed(before)


def test_a_killed_driver_is_restarted_without_a_back_off(installation: Installation) -> None:
    """SIGKILL to the driver of a healthy stream: the trigger fires (dags/test_stream_triggers: at its next look), and
    the task that it wakes restarts the stream in its first moment, whatever the back-off is."""
    before, airflow = installation.live_driver(), installation.airflow
    assert before.process is not None
    task = airflow.task(COUNTED)
    assert task is not None
    os.killpg(before.process.pid, signal.SIGKILL)
    after = installation.live_driver(other_than=before.driver_id)
    exit = installation.exit_of(before.driver_id)
    assert exit.kind is ExitKind.KILLED
    shown = airflow.log(COUNTED, task, int(str(task["try_number"])))
    assert f"driver {before.driver_id} ended: killed by signal 9" in shown
    last = (Path(before.folder) / "driver.log").read_text(errors="replace").splitlines()[-1]
    assert last in shown, "the task's log keeps the last lines of a driver that ended"
    assert exit.committed
    assert "launching a driver for counted" in shown
    assert "going on with counted" not in shown, "no back-off was waited for"
    assert "killed by signal 9" in airflow.runs(COUNTED)[0]["note"], "the grid marks the bar of the run"
    installation.unharmed(after)
    assert len(airflow.runs(COUNTED)) == 1, "restarts happen inside the one run"


@pytest.mark.full  # in the first tier dags/web/test_control_verbs retries the restart; the kill above
def test_kill_of_the_supervisor_while_it_launches(installation: Installation) -> None:
    """restart_stream asks for a restart and dies; the supervisor of the stream's task dies as the new driver is born.

    Both tasks are tried again: the one does not ask again, the other does not launch again.
    """
    before, run_id = killed_restart(installation)
    airflow = installation.airflow
    driver_id = kill_at_launch(installation, before.driver_id, supervisor=True)
    exit = installation.exit_of(before.driver_id)
    assert exit.kind is ExitKind.STOPPED
    after = installation.live_driver(other_than=before.driver_id)
    assert after.driver_id == driver_id, installation.story()
    installation.unharmed(after)
    succeeds(airflow, "restart_stream", run_id)


@pytest.mark.full  # in the first tier browser/test_pages stops and starts it, dags/web/test_stream_grid has the grid
def test_stop_and_start_with_a_form(installation: Installation) -> None:
    """stop_stream, triggered by REST, ends the driver at a batch boundary. The grid shows a stopped stream: its task
    `run` is skipped, and its task `stopped` is deferred. start_stream ends that run, and the next one has a driver."""
    before, airflow = installation.live_driver(), installation.airflow
    run_id = airflow.runs(COUNTED)[0]["dag_run_id"]
    stop = airflow.trigger("stop_stream", stream="counted", reason="moving the data")
    succeeds(airflow, "stop_stream", stop)
    exit = installation.exit_of(before.driver_id)
    assert exit.kind is ExitKind.STOPPED
    assert exit.cut_batch is False
    wait_for("the grid to show it", lambda: _grid(airflow, run_id)["stopped"] == "deferred", timeout=LONG)
    assert _grid(airflow, run_id) == {"run": "skipped", "stopped": "deferred"}
    task = airflow.task(COUNTED, "stopped")
    assert task is not None
    assert "moving the data" in airflow.log(COUNTED, task, task["try_number"])
    assert "moving the data" in task["note"]
    wait_for("its process to be gone", lambda: not installation.jvms(), timeout=LONG)
    start = airflow.trigger("start_stream", stream="counted", reason="moved")
    succeeds(airflow, "start_stream", start)
    installation.unharmed(installation.live_driver(other_than=before.driver_id))
    assert [run["state"] for run in airflow.runs(COUNTED)] == ["running", "success"]
    assert _grid(airflow, run_id) == {"run": "skipped", "stopped": "success"}
    assert _grid(airflow, airflow.runs(COUNTED)[0]["dag_run_id"]) == {"run": "deferred", "stopped": None}


@pytest.mark.full  # in the first tier test_start_beside_airflow, dags/web/test_stream_grid
def test_a_stream_that_was_started_from_a_shell_shows_as_running(installation: Installation) -> None:
    """Its DAG is paused and has no run: a person marked it failed. `streamwarden start` launches a driver and unpauses
    the DAG, and the run that begins follows that driver."""
    before, airflow = installation.live_driver(), installation.airflow
    task = airflow.task(COUNTED)
    assert task is not None
    airflow.mark_failed(COUNTED, task)
    wait_for("the DAG to pause itself", lambda: airflow.is_paused(COUNTED), timeout=LONG)
    installation.exit_of(before.driver_id)
    wait_for("its process to be gone", lambda: not installation.jvms(), timeout=LONG)
    printed = _shell(installation, "start", "counted", "--within", "0")
    assert "unpaused stream_counted" in printed
    started = installation.latest()
    assert started is not None
    assert f"driver {started.driver_id} launched" in printed
    installation.unharmed(installation.live_driver(other_than=before.driver_id))
    after = installation.latest()
    assert after is not None
    assert after.driver_id == started.driver_id
    assert _grid(airflow, airflow.runs(COUNTED)[0]["dag_run_id"]) == {"run": "deferred", "stopped": None}


@pytest.mark.full  # in the first tier dags/test_stream_triggers stops a marked one
def test_mark_failed_stops_at_a_batch_boundary_and_the_dag_stays_red(installation: Installation) -> None:
    """A person marks the deferred task failed; start_stream unpauses the DAG, whose new run starts a driver."""
    before, airflow = installation.live_driver(), installation.airflow
    task = airflow.task(COUNTED)
    assert task is not None
    airflow.mark_failed(COUNTED, task)
    exit = installation.exit_of(before.driver_id)
    assert exit.kind is ExitKind.STOPPED
    assert exit.cut_batch is False
    state = installation.space.store.stops.desired("counted")
    assert state is not None
    assert state.desired is Desired.STOPPED
    assert "marked failed" in state.reason
    wait_for("the DAG to pause itself", lambda: airflow.is_paused(COUNTED), timeout=LONG)
    states = [run["state"] for run in airflow.runs(COUNTED)]
    assert states[0] == "failed"
    assert "running" not in states
    wait_for("its process to be gone", lambda: not installation.jvms(), timeout=LONG)
    succeeds(airflow, "start_stream", airflow.trigger("start_stream", stream="counted", reason="mended"))
    installation.unharmed(installation.live_driver(other_than=before.driver_id))


@pytest.mark.full  # in the first tier dags/test_dag_files and dags/web/test_stream_grid
def test_a_file_that_breaks_loses_neither_its_dag_nor_its_driver(installation: Installation) -> None:
    """The DAG says that its configuration is broken; a cleared task still follows the living driver."""
    before, airflow = installation.live_driver(), installation.airflow
    path = installation.space.project / "config" / "streams" / "counted.yaml"
    text = path.read_text()
    path.write_text(text + "bogus: 1\n")
    airflow.parse_again(COUNTED)
    try:
        wait_for("the DAG to say so", lambda: "broken" in _display_name(airflow), timeout=LONG)
        task = airflow.task(COUNTED)
        assert task is not None
        airflow.clear(COUNTED, task)
        wait_for("the next try", lambda: installation.try_number() > task["try_number"], timeout=LONG)
        installation.unharmed(before)
        assert airflow.import_errors() == []
    finally:
        path.write_text(text)
        airflow.parse_again(COUNTED)
    wait_for("the DAG to be well again", lambda: "broken" not in _display_name(airflow), timeout=LONG)


@pytest.fixture
def drillable(installation: Installation) -> DriverRecord:
    """The stream runs and no incident of it is open, so that the drill on the live stream may ask a person."""
    airflow, space = installation.airflow, installation.space
    airflow.pause(COUNTED, False)
    before = installation.live_driver()
    for incident in space.store.incidents.open("counted"):
        space.store.incidents.save(resolve(incident, "of an earlier scenario", time.time()))
    wait_for("the DAG of the drill", lambda: LIVE_DRILL in airflow.dag_ids(), timeout=LONG)
    airflow.pause(LIVE_DRILL, False)
    return before


@pytest.mark.full  # in the first tier dags/drills/test_drill_approval rejects a run, in Airflow's own operators
def test_a_drill_that_a_person_rejects_touches_nothing(installation: Installation, drillable: DriverRecord) -> None:
    with installation.producer.running():
        rejected = answered(installation.airflow, installation.space, "Reject")
    assert rejected.status is DrillStatus.ABORTED
    assert rejected.reason == f"{WHO} rejected the drill"
    assert installation.live_driver().driver_id == drillable.driver_id


@pytest.mark.timeout(1500)
def test_a_live_stream_is_drilled_after_a_person_approved_it(
    installation: Installation, drillable: DriverRecord
) -> None:
    """The driver is killed, its DAG starts another one, the books balance, and the journal names who approved."""
    space, before = installation.space, drillable
    with installation.producer.running():
        run = answered(installation.airflow, space, "Approve")
    state = RunState.of(run)
    assert run.passed, f"{run.reason}\n{installation.story()}"
    assert state.approval is not None
    assert state.approval.granted
    assert state.approval.by == WHO
    assert state.landed.driver_id == before.driver_id
    assert state.audit is not None
    assert state.audit.outcome is AuditOutcome.BALANCED
    assert state.healing is not None
    assert state.healing.removed == ()
    after = installation.live_driver(other_than=before.driver_id)
    assert [each.driver_id for each in space.store.drivers.history("counted", before.launched_at)] == [
        before.driver_id,
        after.driver_id,
    ], "its DAG launched the one new driver"
    assert after.launched_by.startswith("airflow stream_counted")


def test_the_health_dag_shows_what_is_not_healthy_by_name(installation: Installation) -> None:
    """One tick on real batches: the running stream is judged, and those that never started are not shown as healthy.

    The tick is recorded, it finds all components of Airflow running, and its run can be removed afterwards.
    """
    airflow, store = installation.airflow, installation.space.store
    airflow.pause("health", False)
    run_id = airflow.trigger("health")
    try:
        wait_for(
            "the end of a tick",
            lambda: next(run for run in airflow.runs("health") if run["dag_run_id"] == run_id)["end_date"],
            timeout=LONG,
        )
    finally:
        airflow.pause("health", True)
    tasks = airflow.tasks("health", run_id)
    for task in tasks:
        if task["task_id"] in ("evaluate", "notify"):
            assert task["state"] == "success", airflow.log("health", task, 1)
    shown = {task["rendered_map_index"]: task["state"] for task in tasks if task["task_id"] == "stream"}
    assert shown.pop("2 streams: not judged", "absent") == "skipped", shown
    assert len(shown) == 1
    verdicts = store.verdicts.latest("counted")
    assert any(verdict.status is Status.OK for verdict in verdicts)
    assert [record.evaluator for record in store.evaluations.all()] == [Evaluator.DAG]
    assert store.incidents.open(EVERYWHERE) == ()
    AirflowServer(url=airflow.url).delete_runs("health", datetime.now(UTC) + timedelta(days=1))
    assert run_id not in {run["dag_run_id"] for run in airflow.runs("health")}


@pytest.fixture(scope="module")
def failing(installation: Installation) -> Installation:
    """The two streams that must fail do so side by side."""
    for dag_id in ("stream_doomed", "stream_wrong"):
        installation.airflow.pause(dag_id, False)
    return installation


def test_out_of_budget_the_stream_stays_down_red_and_with_an_incident(failing: Installation) -> None:
    """One restart is allowed, the second failure is the last: the DAG pauses itself and starts no new run."""
    airflow, store = failing.airflow, failing.space.store
    wait_for("the DAG to pause itself", lambda: airflow.is_paused("stream_doomed"), timeout=LONG)
    assert [run["state"] for run in airflow.runs("stream_doomed")] == ["failed"]
    drivers = store.drivers.history("doomed", 0)
    assert len(drivers) == 2
    assert all(driver.exit is not None and driver.exit.kind is ExitKind.FAILED for driver in drivers)
    assert any(event.kind == GAVE_UP for event in store.drivers.events(drivers[-1].driver_id))
    incidents = [each for each in store.incidents.open("doomed") if each.check == "supervision"]
    assert len(incidents) == 1
    assert "the table of prices is not reachable" in incidents[0].reason
    assert incidents[0].advice
    wait_for("its process to be gone", lambda: not failing.jvms("doomed"), timeout=LONG)


def test_what_a_restart_cannot_cure_is_not_tried_again(failing: Installation) -> None:
    """The job asks for a column that is not there: one launch, no back-off, red, paused, an incident with advice."""
    airflow, store = failing.airflow, failing.space.store
    wait_for("the DAG to pause itself", lambda: airflow.is_paused("stream_wrong"), timeout=LONG)
    drivers = store.drivers.history("wrong", 0)
    assert len(drivers) == 1
    assert drivers[0].exit is not None
    assert not drivers[0].exit.curable
    incidents = [each for each in store.incidents.open("wrong") if each.check == "supervision"]
    assert len(incidents) == 1
    assert "name `price` cannot be resolved" in incidents[0].reason
    assert incidents[0].advice
    task = airflow.task("stream_wrong")
    assert task is not None
    assert task["note"].startswith("DOWN: ")
    assert "name `price` cannot be resolved" in task["note"]
    raised = [line for line in _errors_of(airflow, "stream_wrong", task) if "Traceback (most recent" in line]
    assert raised, "the traceback of the driver is an error in the task's log"
    assert all("cannot be resolved" in text for text in raised), "and it is one record"


# What the scenarios are made of


def _a_line_of(record: DriverRecord) -> str:
    """A line of the driver's own log that nothing else would print."""
    lines = (Path(record.folder) / "driver.log").read_text(errors="replace").splitlines()
    return max((line for line in lines if len(line) > 20), key=len)


def _shown(log: Path) -> int:
    mark = log.with_name(log.name + ".shown")
    return int(mark.read_text()) if mark.exists() else 0


def _grid(airflow: Airflow, run_id: str) -> dict[str, str | None]:
    """Task -> state, as the column of this run shows them."""
    return {task["task_id"]: task["state"] for task in airflow.tasks(COUNTED, run_id)}


def _errors_of(airflow: Airflow, dag_id: str, task: dict[str, Any]) -> list[str]:
    """The records of a task's log that the UI shows as errors."""
    path = f"/dags/{dag_id}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}/logs/{task['try_number']}"
    lines = airflow.call("GET", path, full_content=True)["content"]
    return [line["event"] for line in lines if isinstance(line, dict) and line.get("level") == "error"]


def _shell(installation: Installation, *command: str) -> str:
    """Run `streamwarden` as a person in a shell beside Airflow; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "streamwarden.cli", *command],
        env={**os.environ, **installation.space.environment(), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _display_name(airflow: Airflow) -> str:
    return str(airflow.call("GET", f"/dags/{COUNTED}")["dag_display_name"])
