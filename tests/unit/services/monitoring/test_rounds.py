"""What a round leaves behind: a record, incidents of Airflow and of drills, and a request to the dead man's switch."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from io import StringIO

import pytest

from streamwarden.errors import StoreError
from streamwarden.health.check_relations import AIRFLOW, EVALUATION, EVERYWHERE
from streamwarden.health.evaluations import EvaluationRecord, Evaluator, last_round
from streamwarden.health.verdict import Status
from streamwarden.services.monitoring import airflow_health
from streamwarden.services.monitoring.airflow_health import judge
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.monitoring.rounds import Surroundings, run_round
from streamwarden.services.workspace import Workspace
from support.servers.inbox import Inbox

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad answer of Airflow is checked at once."""
    monkeypatch.setattr(airflow_health, "AGAIN", 0.0)


def test_a_round_is_recorded_and_the_dead_mans_switch_is_requested(space: Workspace, inbox: Inbox) -> None:
    switch = f"{inbox.http}/ping/s3cret"
    done = run_round(space, Evaluator.WATCH, Surroundings(heartbeat_url=switch))
    assert inbox.visits == ["/ping/s3cret"]
    (record,) = space.store.evaluations.all()
    assert record == done.record
    assert (record.evaluator, record.streams, record.failures) == (Evaluator.WATCH, 1, 0)


def test_a_round_that_fails_requests_no_switch_and_leaves_no_record(
    space: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails in the middle: the switch has to notice that no round was completed."""

    def down(*_: object, afresh: bool) -> None:
        raise StoreError("the store is down")

    monkeypatch.setattr(HealthMonitor, "evaluate", down)
    with pytest.raises(StoreError):
        run_round(space, Evaluator.WATCH, Surroundings(heartbeat_url=inbox.http))
    assert inbox.visits == []
    assert space.store.evaluations.all() == ()


@pytest.mark.parametrize("status", [404, 503])
def test_a_switch_that_refuses_harms_no_round_and_its_url_is_in_no_log(
    space: Workspace, inbox: Inbox, status: int, logged: StringIO
) -> None:
    inbox.status = status
    run_round(space, Evaluator.DAG, Surroundings(heartbeat_url=f"{inbox.http}/s3cret"))
    assert f"answered {status}" in logged.getvalue()
    assert "s3cret" not in logged.getvalue()


def test_a_switch_that_is_unreachable_harms_no_round(space: Workspace, logged: StringIO) -> None:
    gone = Inbox()
    gone.close()
    run_round(space, Evaluator.DAG, Surroundings(heartbeat_url=f"{gone.http}/s3cret"))
    assert "does not answer (ConnectionRefusedError)" in logged.getvalue()
    assert len(space.store.evaluations.all()) == 1


def health(**unhealthy: str | None) -> dict[str, dict[str, str | None]]:
    """What `/monitor/health` answers. `unhealthy`: component -> its last heartbeat."""
    names = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    well: dict[str, dict[str, str | None]] = {name: {"status": "healthy"} for name in names}
    sick = {name: {"status": "unhealthy", f"latest_{name}_heartbeat": at} for name, at in unhealthy.items()}
    return well | sick


def test_an_unhealthy_component_of_airflow_is_an_incident_with_cause_and_remedy(space: Workspace, inbox: Inbox) -> None:
    """It names the component and the age of its heartbeat, and is resolved when the component is back."""
    around = Surroundings(airflow=inbox.http)
    ago = datetime.fromtimestamp(time.time() - 180, UTC).isoformat()
    inbox.document = health(triggerer=ago)
    done = run_round(space, Evaluator.WATCH, around)
    (incident,) = space.store.incidents.open(EVERYWHERE)
    assert (incident.check, incident.status) == (AIRFLOW, Status.CRITICAL)
    assert "the triggerer does not run: its last heartbeat was 3m" in incident.reason
    assert "start `airflow triggerer`" in incident.advice
    assert done.record.failures == 1
    assert inbox.visits == ["/api/v2/monitor/health"] * 2
    inbox.document = health()
    run_round(space, Evaluator.WATCH, around)
    assert space.store.incidents.open(EVERYWHERE) == ()


def test_a_component_that_starts_a_moment_later_opens_no_incident(inbox: Inbox) -> None:
    inbox.document = health(triggerer=None)

    def start(_: float) -> None:
        inbox.document = health()

    assert airflow_health.airflow_verdict(inbox.http, NOW, sleep=start).status is Status.OK


def test_an_api_server_that_does_not_answer_is_an_incident(space: Workspace) -> None:
    """The message names host and port, and no password."""
    gone = Inbox()
    gone.close()
    run_round(space, Evaluator.WATCH, Surroundings(airflow=f"http://user:s3cret@127.0.0.1:{gone.port}"))
    (incident,) = space.store.incidents.open(EVERYWHERE)
    assert f"the API server at 127.0.0.1:{gone.port}: it does not answer" in incident.reason
    assert "s3cret" not in incident.reason


def test_several_components_are_named_and_a_database_stands_for_all() -> None:
    assert judge(health(), NOW).status is Status.OK
    reason = judge(health(scheduler=None, dag_processor=None), NOW).reason
    assert reason == "Airflow: the scheduler does not run; the dag processor does not run"
    assert judge(health(metadatabase=None, scheduler=None), NOW).reason == "Airflow: the metadatabase does not answer"


@pytest.mark.parametrize("document", [None, [], "healthy", {}, {"scheduler": {"status": "healthy"}}])
def test_an_answer_that_is_not_airflows_is_critical(document: object) -> None:
    assert "not that of Airflow 3" in judge(document, NOW).reason


def record(at: float, evaluator: Evaluator = Evaluator.DAG) -> EvaluationRecord:
    return EvaluationRecord(at=at, evaluator=evaluator, host="host1", seconds=1.0, streams=2)


def test_the_last_round_is_shown_with_its_age() -> None:
    shown = last_round([record(NOW - 90, Evaluator.WATCH), record(NOW - 30)], NOW)
    assert (shown.text, shown.late) == ("Last evaluation 30.0 s ago by the health DAG on host1.", False)


def test_an_evaluation_that_was_missed_three_times_is_late() -> None:
    assert not last_round([record(NOW - 180)], NOW).late
    shown = last_round([record(NOW - 181)], NOW)
    assert shown.late
    assert "streamwarden watch" in shown.text


def test_a_watcher_reports_a_health_dag_that_has_stopped(space: Workspace, inbox: Inbox) -> None:
    """Airflow's components run, but the DAG is paused. Only the DAG itself resolves the incident."""
    inbox.document = health()
    around = Surroundings(airflow=inbox.http)
    run_round(space, Evaluator.DAG, around, clock=lambda: NOW)
    run_round(space, Evaluator.WATCH, around, clock=lambda: NOW + 180)
    assert space.store.incidents.open(EVERYWHERE) == ()
    run_round(space, Evaluator.WATCH, around, clock=lambda: NOW + 200)
    (incident,) = space.store.incidents.open(EVERYWHERE)
    assert (incident.check, incident.status) == (EVALUATION, Status.CRITICAL)
    assert "has not judged the streams for 3m 20s" in incident.reason


def test_a_watcher_without_an_airflow_expects_no_health_dag(space: Workspace) -> None:
    run_round(space, Evaluator.DAG, clock=lambda: NOW)
    run_round(space, Evaluator.WATCH, clock=lambda: NOW + 9_000)
    assert space.store.incidents.open() == ()


def test_no_evaluation_at_all_is_late() -> None:
    assert last_round([], NOW).late
