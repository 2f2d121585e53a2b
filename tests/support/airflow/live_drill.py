"""A drill on the live stream `counted` in a real Airflow, which somebody approves or rejects through its API."""

from __future__ import annotations

from typing import Any, Final

from streamwarden.airflow.links import drill_run_id
from streamwarden.drills.records.journal import DrillRun
from streamwarden.services.workspace import Workspace
from support.airflow.harness import Airflow, wait_for

LIVE_DRILL: Final = "drill_kill_live"
WHO: Final = "Anonymous"
"""The user of an Airflow in which everybody is an administrator."""

LONG: Final = 240.0
"""Seconds; see the tests of a stream that survives Airflow."""

AUDITED: Final = 4 * LONG
"""Seconds until a drill is given up: it audits twice, and an audit has the lowest priority on the processor."""

KILL_LIVE: Final = """
name: kill_live
stream: counted
fault: {kind: kill_driver}
target: production
production:
  allowed_hours: {start: "00:00", end: "24:00", days: [mon, tue, wed, thu, fri, sat, sun]}
steady_state: {min_batches: 2}
verification: {min_records: 100}
"""


def answered(airflow: Airflow, space: Workspace, answer: str) -> DrillRun:
    """Trigger the drill and answer its question; the run once it has ended. No answer makes the DAG run fail."""
    dag_run = airflow.trigger(LIVE_DRILL)
    path = f"/dags/{LIVE_DRILL}/dagRuns/{dag_run}"

    def story() -> str:
        return _story(airflow, dag_run)

    asks = "the scheduler, which asks again if the answer comes before it has noticed the end of the task's process"
    wait_for(asks, lambda: airflow.has_noticed(LIVE_DRILL, dag_run, "approval"), timeout=2 * LONG, explain=story)
    (question,) = airflow.call("GET", f"{path}/hitlDetails")["hitl_details"]
    assert "counted" in question["subject"]
    assert "never drilled on a fork" in question["body"]
    airflow.call("PATCH", f"{path}/taskInstances/approval/-1/hitlDetails", {"chosen_options": [answer]})

    def ended() -> Any:
        found = (each for each in airflow.runs(LIVE_DRILL) if each["dag_run_id"] == dag_run and each["end_date"])
        return next(found, None)

    assert wait_for("the end of the drill", ended, timeout=AUDITED, explain=story)["state"] == "success", story()
    run = space.store.journals.get(drill_run_id("kill_live", dag_run))
    assert run is not None
    return run


def _story(airflow: Airflow, dag_run: str) -> str:
    """Each task of the run with the end of its log."""
    return "\n".join(
        f"{task['task_id']} {task['state']}\n{airflow.log(LIVE_DRILL, task, task['try_number'])[-1500:]}"
        for task in airflow.tasks(LIVE_DRILL, dag_run)
        if task["try_number"]
    )
