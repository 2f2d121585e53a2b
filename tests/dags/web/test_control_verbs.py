"""stop_stream, restart_stream and start_stream when a try of theirs dies, the store is away, or nobody supervises.

The store is real, and so is the process that stands for a driver; what Airflow says is given.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from streamwarden.adapters.store.database import StoreBusy
from streamwarden.adapters.store.drivers.stops import SqlStopRepository
from streamwarden.airflow.dags import controls
from streamwarden.airflow.dags.controls import ControlOperator
from streamwarden.airflow.dags.streams import stream_dags
from streamwarden.airflow.operators import StreamOperator
from streamwarden.errors import StoreError
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.supervision.stop import Desired, StopRequest
from streamwarden.services.workspace import Workspace
from support.airflow.project import living_driver


def driver(space: Workspace, driver_id: str = "counted-1", launched_at: float | None = None) -> DriverRecord:
    return living_driver(space, driver_id, launched_at)


def context(*, try_number: int = 1, began: float, paused: bool = False) -> dict[str, Any]:
    """What Airflow tells a task whose run began at `began`."""
    dag = SimpleNamespace(is_paused=paused)
    return {
        "params": {"stream": "counted", "reason": "new code"},
        "ti": SimpleNamespace(dag_id="d", run_id="r", try_number=try_number, get_dag=lambda dag_id: dag),
        "dag_run": SimpleNamespace(start_date=datetime.fromtimestamp(began, UTC), triggering_user_name="ann"),
    }


def carry_out(space: Workspace, verb: str, given: dict[str, Any]) -> str:
    """One try of the verb's task: `waits` for a driver's end, or it is `done`."""
    try:
        ControlOperator(task_id=verb, verb=verb, project=str(space.project)).execute(given)
    except TaskDeferred:
        return "waits"
    return "done"


def asked(space: Workspace, driver_id: str = "counted-1") -> StopRequest | None:
    return space.store.stops.pending(driver_id)


def test_a_restart_that_is_tried_again_leaves_the_new_driver_alone(space: Workspace) -> None:
    """The first try asked and died; by the second the new driver runs. A new run of the DAG is a new request."""
    began = time.time() - 60
    driver(space, launched_at=began + 30)
    assert carry_out(space, "restart", context(began=began, try_number=2)) == "done"
    assert asked(space) is None
    assert carry_out(space, "restart", context(began=time.time(), try_number=1)) == "waits"
    assert asked(space) is not None


def test_a_restart_that_died_before_it_asked_asks_now(space: Workspace) -> None:
    began = time.time()
    driver(space, launched_at=began - 60)
    assert carry_out(space, "restart", context(began=began, try_number=2)) == "waits"
    request = asked(space)
    assert request is not None
    assert (request.restart, request.requested_by) == (True, "ann (Airflow)")


def test_a_stop_that_is_tried_again_does_not_undo_a_later_start(space: Workspace) -> None:
    began = time.time() - 60
    driver(space, launched_at=began - 60)
    space.fleet.set_running("counted", "bob", "it was the wrong stream")
    assert carry_out(space, "stop", context(began=began, try_number=2)) == "done"
    assert asked(space) is None
    state = space.store.stops.desired("counted")
    assert state is not None
    assert state.desired is Desired.RUNNING


def test_a_request_that_was_stored_in_part_is_tried_again(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is locked between the desired state and the stop request: the task fails, and Airflow tries again."""
    began = time.time()
    driver(space, launched_at=began - 60)
    with monkeypatch.context() as patched:
        patched.setattr(SqlStopRepository, "request", _locked)
        with pytest.raises(StoreError):
            carry_out(space, "stop", context(began=began))
    assert asked(space) is None
    assert carry_out(space, "stop", context(began=began, try_number=2)) == "waits"
    assert asked(space) is not None


def _locked(*_: object) -> None:
    raise StoreBusy("the store is locked")


@pytest.mark.parametrize("refusal", [None, "the API answered 401"])
def test_a_restart_stops_nothing_that_nobody_would_start_again(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, refusal: str | None
) -> None:
    """The stream's DAG is paused (somebody started the driver by hand): it is unpaused first, or the driver goes on."""
    monkeypatch.setattr(controls, "unpause", lambda dag_id: refusal)
    began = time.time()
    driver(space, launched_at=began - 60)
    given = context(began=began, paused=True)
    if refusal is None:
        assert carry_out(space, "restart", given) == "waits"
        assert asked(space) is not None
    else:
        with pytest.raises(AirflowFailException, match="401"):
            carry_out(space, "restart", given)
        assert asked(space) is None


def test_a_start_unpauses_the_dag_of_its_stream(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It paused itself when the stream went down, or when a person marked its task failed."""
    unpaused: list[str] = []
    monkeypatch.setattr(controls, "unpause", unpaused.append)
    assert carry_out(space, "start", context(began=time.time(), paused=True)) == "done"
    assert unpaused == ["stream_counted"]


def follow(space: Workspace) -> None:
    """A try of the stream's own task, which finds the driver and goes on following it."""
    given = context(began=time.time())
    with pytest.raises(TaskDeferred):
        StreamOperator(task_id="run", stream="counted", project=str(space.project)).execute(given)


def test_who_follows_a_driver_tells_it_of_a_stop_that_came_while_it_was_launched(space: Workspace) -> None:
    """Whoever asked saw no driver, and the process that launched it died before it could look."""
    assert space.fleet.request_stop("counted", requested_by="ann", reason="moving the data") is None
    driver(space)
    follow(space)
    request = asked(space)
    assert request is not None
    assert (request.requested_by, request.reason, request.restart) == ("ann", "moving the data", False)
    follow(space)
    assert asked(space) == request, "and it is told once"


def test_a_stream_that_is_wanted_running_is_followed_and_nothing_else(space: Workspace) -> None:
    driver(space)
    follow(space)
    assert asked(space) is None


def test_the_incident_of_a_stream_that_was_down_ends_with_whoever_follows_its_driver(space: Workspace) -> None:
    """Whoever launched it (a try that died at once, a person's `streamwarden start`) did not come to it."""
    open_incident(space.store.incidents, "counted", "out of budget", "read the log", time.time())
    driver(space)
    follow(space)
    assert list(space.store.incidents.open("counted")) == []


def test_a_start_may_begin_anew_and_the_reason_reaches_the_next_launch(space: Workspace) -> None:
    given = context(began=time.time())
    given["params"]["begin_anew"] = "the input was replayed"
    assert carry_out(space, "start", given) == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert (state.desired, state.begin_anew) == (Desired.RUNNING, "the input was replayed")
    assert carry_out(space, "start", context(began=time.time())) == "done"
    state = space.store.stops.desired("counted")
    assert state is not None
    assert state.begin_anew is None, "each permission is for one start"


def test_a_stream_that_runs_without_a_file_has_a_dag_and_can_be_stopped(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its DAG follows the driver and launches none; the form offers it."""
    driver(space)
    (space.project / "config/streams/counted.yaml").unlink()
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(space.project))
    dag = stream_dags(str(space.project / "dags/streams.py"))["stream_counted"]
    assert "broken-config" in dag.tags
    assert "without a declaration" in str(dag.doc_md)
    forms = controls.control_dags(str(space.project / "dags/controls.py"))
    assert "counted" in forms["stop_stream"].params.get_param("stream").schema["enum"]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "stream_counted")
    assert set(stream_dags(str(space.project / "dags/streams.py"))) == {"stream_counted"}
    assert carry_out(space, "stop", context(began=time.time())) == "waits"
    assert asked(space) is not None
