"""Requests of a task to the Airflow that runs it: whether DAGs are paused, to unpause one, and to write a note.

Airflow's execution API answers a task without an account, but it changes neither pauses nor notes. These go through the
REST API, as the connection `streamwarden_airflow`. Without that connection the API of this installation is tried, which
gives a token to every caller where the local demo runs it so.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from airflow.configuration import conf
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

from streamwarden.adapters.airflow_server import CONNECTION, AirflowServer
from streamwarden.adapters.connections import Connection
from streamwarden.errors import AirflowError

if TYPE_CHECKING:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from streamwarden.services.workspace import Workspace

_log = logging.getLogger(__name__)

HURRIED: Final = 3.0
"""Seconds for a request about a note for which a stream waits."""
PATIENT: Final = 30.0
"""Seconds for any other one: a busy server takes some."""


def unpause(dag_id: str) -> str | None:
    """Unpause `dag_id`. None if that succeeded, else the reason why not."""
    try:
        own_server().unpause(dag_id)
    except AirflowError as error:
        return str(error)
    return None


def annotate(ti: RuntimeTaskInstance, note: str, *, whole_run: bool = False, within: float = PATIENT) -> str | None:
    """Set the note of a task instance, or of its DAG run, within so many seconds. None if that succeeded, else the
    reason why not."""
    task_id = None if whole_run else ti.task_id
    try:
        own_server(timeout=within).annotate(ti.dag_id, ti.run_id, note, task_id=task_id)
    except AirflowError as error:
        return str(error)
    return None


def is_paused(ti: RuntimeTaskInstanceProtocol, dag_id: str) -> bool | None:
    """Whether this DAG is paused; None if there is no such DAG, or if Airflow does not answer.

    Needs no account: the task `ti` asks Airflow's execution API.
    """
    try:
        return bool(ti.get_dag(dag_id).is_paused)
    except Exception as error:  # whatever Airflow answers, the streams are judged without it
        _log.warning("it is unknown whether the DAG %s is paused: %s", dag_id, error)
        return None


def own_url() -> str:
    """The address of the API server that tasks report to. `[api] base_url` may be an address for browsers alone."""
    execution = conf.get("core", "execution_api_server_url", fallback="") or ""
    base = execution.removesuffix("/").removesuffix("/execution") or conf.get("api", "base_url", fallback="") or ""
    return base.rstrip("/") or f"http://127.0.0.1:{conf.getint('api', 'port')}"


def remember_server(space: Workspace) -> None:
    """Record this installation in the store: a shell that starts a stream then finds it. Raises StoreError."""
    space.store.airflow_servers.seen(own_url(), time.time())


def own_server(*, timeout: float = 10.0) -> AirflowServer:
    """The API server of this installation, with the account of the connection if there is one."""
    try:
        account = BaseHook.get_connection(CONNECTION)
    except AirflowException:
        return AirflowServer(url=own_url(), timeout=timeout)
    connection = Connection(
        name=CONNECTION,
        host=account.host,
        port=account.port,
        login=account.login,
        password=account.password,
        schema=account.schema,
    )
    return AirflowServer.of(connection, timeout=timeout)
