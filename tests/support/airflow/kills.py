"""Kills of Airflow's task processes at moments that only a poll of a millisecond hits."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from streamwarden.lifecycle.driver import DriverRecord
from support.airflow.harness import Airflow, parent_of, wait_for
from support.airflow.installation import COUNTED, LONG, Installation


def kill_at_launch(installation: Installation, before: str | None, *, supervisor: bool = False) -> str:
    """SIGKILL to the task process, or to its supervisor, at the moment when the driver's supervisor process lives and
    the task has not deferred yet; the id of the driver that was launched."""
    airflow, root = installation.airflow, installation.space.data / "drivers" / "counted"
    runner = wait_for("the task process", lambda: airflow.runner_of(COUNTED), timeout=LONG, poll=0.02)
    victim = parent_of(runner) if supervisor else runner
    assert victim

    def born() -> str | None:
        newest = max((path.parent.name for path in root.glob("*/keeper.json")), default=None)
        return newest if newest != before else None

    driver_id = wait_for("a driver's supervisor process", born, timeout=LONG, poll=0.001)
    os.kill(victim, signal.SIGKILL)
    task = airflow.task(COUNTED)
    assert task is not None
    assert task["state"] != "deferred", "the task was over before it could be killed: this proves nothing"
    return driver_id


def killed_restart(installation: Installation) -> tuple[DriverRecord, str]:
    """The driver to restart, and the run of restart_stream whose task process died once it had asked. A task that was
    deferred before it could be killed proves nothing: its restart takes place, and another one is asked for."""
    for _ in range(5):
        before = installation.live_driver()
        run_id = installation.airflow.trigger("restart_stream", stream="counted", reason="new code")
        if _kill_when_asked(installation, before.driver_id):
            return before, run_id
        succeeds(installation.airflow, "restart_stream", run_id)
        installation.live_driver(other_than=before.driver_id)
    raise AssertionError("each task was deferred before it could be killed")


def _kill_when_asked(installation: Installation, driver_id: str) -> bool:
    """SIGKILL to the task process of restart_stream in the moment in which its request is known; False if the task was
    deferred by then."""
    airflow, stops = installation.airflow, installation.space.store.stops
    runner = wait_for(
        "the process that restarts", lambda: airflow.runner_of("restart_stream", "restart"), timeout=LONG, poll=0.02
    )
    wait_for("its request", lambda: stops.pending(driver_id), timeout=LONG, poll=0.001)
    with suppress(ProcessLookupError):
        os.kill(runner, signal.SIGKILL)
    task = airflow.task("restart_stream", "restart")
    assert task is not None
    return task["state"] != "deferred"


def succeeds(airflow: Airflow, dag_id: str, run_id: str) -> None:
    def state() -> str | None:
        run = next(run for run in airflow.runs(dag_id) if run["dag_run_id"] == run_id)
        return run["state"] if run["state"] in ("success", "failed") else None

    ended = wait_for(f"{dag_id} {run_id}", state, timeout=LONG)
    task = airflow.tasks(dag_id, run_id)[0]
    assert ended == "success", airflow.log(dag_id, task, task["try_number"])
