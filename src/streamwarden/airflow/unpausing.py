"""What a task asks of the Airflow that runs it: whether DAGs are paused, to unpause one, and to write a note.

Airflow's execution API answers a task without an account, but it changes neither pauses nor notes. These go through the
REST API, as the connection `streamwarden_airflow`. Without that connection the API of this installation is tried, which
gives a token to every caller where the local demo runs it so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from airflow.configuration import conf
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from streamwarden.adapters.airflow_server import CONNECTION, PREFIX, AirflowServer
from streamwarden.adapters.connections import Connection
from streamwarden.errors import AirflowError

if TYPE_CHECKING:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from streamwarden.services.workspace import Workspace

NOTE_TIMEOUT: Final = 3.0
"""Seconds for one request about a note: a stream must not wait for it."""


def unpause(dag_id: str) -> str | None:
    """Unpause `dag_id`. None if that succeeded, else the reason why not."""
    try:
        _server().unpause(dag_id)
    except AirflowError as error:
        return str(error)
    return None


def annotate(ti: RuntimeTaskInstance, note: str, *, whole_run: bool = False) -> str | None:
    """Set the note of a task instance, or of its DAG run. None if that succeeded, else the reason why not."""
    task_id = None if whole_run else ti.task_id
    try:
        _server(timeout=NOTE_TIMEOUT).annotate(ti.dag_id, ti.run_id, note, task_id=task_id)
    except AirflowError as error:
        return str(error)
    return None


def paused_streams(streams: Iterable[str], ti: RuntimeTaskInstance) -> frozenset[str]:
    """Those of `streams` whose DAG is paused: Airflow restarts no driver of theirs.

    Needs no account: the task `ti` asks Airflow's execution API, with one request for each stream. A stream whose DAG
    Airflow does not know, or about which it does not answer, is left out.
    """
    return frozenset(stream for stream in streams if _is_paused(f"{PREFIX}{stream}", ti))


def own_url() -> str:
    """The address of this installation's API server."""
    base = conf.get("api", "base_url", fallback="") or ""
    return base.rstrip("/") or f"http://127.0.0.1:{conf.getint('api', 'port')}"


def remember_server(space: Workspace) -> None:
    """Record this installation in the store: a shell that starts a stream then finds it. Raises StoreError."""
    space.store.airflow_servers.seen(own_url(), time.time())


def _is_paused(dag_id: str, ti: RuntimeTaskInstance) -> bool:
    try:
        return ti.get_dag(dag_id).is_paused
    except AirflowRuntimeError:
        return False


def _server(*, timeout: float = 10.0) -> AirflowServer:
    try:
        known = BaseHook.get_connection(CONNECTION)
    except AirflowException:
        return AirflowServer(url=own_url(), timeout=timeout)
    connection = Connection(
        name=CONNECTION,
        host=known.host,
        port=known.port,
        login=known.login,
        password=known.password,
        schema=known.schema,
    )
    return AirflowServer.of(connection, timeout=timeout)
