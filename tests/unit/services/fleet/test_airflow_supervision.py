"""A stream is started from a shell: who restarts its driver from then on? The store and the HTTP requests are real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from urllib.parse import quote

import pytest

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.adapters.store import Store
from streamwarden.errors import AirflowError
from streamwarden.services.fleet.airflow_supervision import KNOWN, Supervision, hand_over
from support.airflow.api import AirflowApi, serving

NOW = 1_800_000_000.0
DAG = "stream_counted"


@pytest.fixture
def airflow() -> Iterator[AirflowApi]:
    with serving(AirflowApi(paused={DAG: True})) as api:
        yield api


def start(store: Store, environ: dict[str, str] | None = None) -> Supervision | None:
    return hand_over(store, "counted", environ=environ or {}, now=NOW)


def account_of(airflow: AirflowApi, password: str = "right") -> dict[str, str]:
    """The environment of a person whose shell has the connection of an account."""
    airflow.account = ("warden", "right")
    connection = {"conn_type": "http", "host": airflow.url, "login": "warden", "password": password}
    return {"AIRFLOW_CONN_STREAMWARDEN_AIRFLOW": json.dumps(connection)}


def test_without_an_airflow_nothing_is_asked(store: Store) -> None:
    assert start(store) is None


def test_an_installation_that_went_away_is_not_asked(store: Store, airflow: AirflowApi) -> None:
    store.airflow_servers.seen(airflow.url, NOW - KNOWN - 1)
    assert start(store) is None


def test_an_installation_that_was_ended_on_purpose_is_not_asked(store: Store, airflow: AirflowApi) -> None:
    store.airflow_servers.seen(airflow.url, NOW)
    store.airflow_servers.forget(airflow.url)
    assert start(store) is None
    assert airflow.paused == {DAG: True}


def test_the_paused_dag_of_the_stream_is_unpaused(store: Store, airflow: AirflowApi) -> None:
    """The newest installation counts: an older one on this store was moved."""
    store.airflow_servers.seen("http://127.0.0.1:9", NOW - 60)
    store.airflow_servers.seen(airflow.url, NOW - 1)
    assert start(store) == Supervision(dag_id=DAG, unpaused=True)
    assert airflow.paused == {DAG: False}
    assert start(store) == Supervision(dag_id=DAG, unpaused=False)


@pytest.mark.parametrize(("busy", "unpaused"), [(2, True), (3, False)])
def test_a_request_that_a_locked_database_refused_is_repeated(airflow: AirflowApi, busy: int, unpaused: bool) -> None:
    airflow.busy = busy
    with nullcontext() if unpaused else pytest.raises(AirflowError, match="answered 500"):
        AirflowServer(url=airflow.url).unpause(DAG)
    assert airflow.paused == {DAG: not unpaused}


def test_a_run_is_asked_for_once_because_it_may_have_begun(airflow: AirflowApi) -> None:
    airflow.busy = 2
    with pytest.raises(AirflowError, match="answered 500"):
        AirflowServer(url=airflow.url).trigger(DAG)
    assert airflow.busy == 1


def test_an_airflow_with_accounts_needs_the_connection(store: Store, airflow: AirflowApi) -> None:
    store.airflow_servers.seen(airflow.url, NOW)
    environ = account_of(airflow)
    refused = start(store)
    assert refused is not None
    assert refused.problem is not None
    assert "401" in refused.problem.observed
    assert "streamwarden_airflow" in refused.problem.next_step
    assert start(store, environ) == Supervision(dag_id=DAG, unpaused=True)


def test_a_wrong_password_is_not_shown(store: Store, airflow: AirflowApi) -> None:
    refused = start(store, account_of(airflow, password="hunter2"))
    assert refused is not None
    assert refused.problem is not None
    assert "hunter2" not in str(refused.problem)
    assert "hunter2" not in repr(AirflowServer(url="http://a", login="warden", password="hunter2"))


def test_a_stream_that_airflow_has_not_read_yet(store: Store, airflow: AirflowApi) -> None:
    store.airflow_servers.seen(airflow.url, NOW)
    del airflow.paused[DAG]
    found = start(store)
    assert found is not None
    assert found.problem is not None
    assert "import errors" in found.problem.next_step


def test_an_airflow_that_is_down_is_reported_and_nothing_fails(store: Store) -> None:
    store.airflow_servers.seen("http://127.0.0.1:9", NOW)
    found = start(store)
    assert found is not None
    assert found.problem is not None
    assert "http://127.0.0.1:9" in found.problem.observed


def test_note_is_cut_to_the_length_that_airflow_keeps(airflow: AirflowApi) -> None:
    run_id = "scheduled__2026-11-23T06:00:00+00:00"
    AirflowServer(url=airflow.url).annotate(DAG, run_id, "x" * 2000, task_id="run")
    AirflowServer(url=airflow.url).annotate(DAG, run_id, "restarted")
    path = f"dagRuns/{quote(run_id)}"
    assert airflow.notes == {f"{path}/taskInstances/run": "x" * 1000, path: "restarted"}
