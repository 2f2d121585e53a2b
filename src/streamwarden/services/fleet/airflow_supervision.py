"""Hands a stream that was started from a shell to the Airflow that supervises this project's streams, if one does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.airflow_server import CONNECTION, PREFIX, AirflowServer
from streamwarden.adapters.connections import connection, variable
from streamwarden.errors import AirflowError, ConfigError

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

KNOWN: Final = 24 * 3600.0
"""Seconds for which an installation that recorded itself in the store is asked: after that it is taken for removed."""

TIMEOUT: Final = 5.0
"""Seconds for one request: the driver runs already, and a person waits for the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """Whether Airflow supervises the stream.

    Args:
        unpaused: the DAG was paused, and is not any longer.
        problem: why Airflow does not supervise the stream; None: it does.
    """

    dag_id: str
    unpaused: bool = False
    problem: AirflowError | ConfigError | None = None


def hand_over(store: Store, stream: str, *, environ: Mapping[str, str], now: float) -> Supervision | None:
    """Unpause the stream's DAG, whose run then follows the living driver. None if no Airflow is known here.

    Raises StoreError.
    """
    dag_id = f"{PREFIX}{stream}"
    try:
        server = _server(store, environ, now)
        if server is None:
            return None
        paused = server.is_paused(dag_id)
        if paused:
            server.unpause(dag_id)
    except (AirflowError, ConfigError) as error:
        return Supervision(dag_id=dag_id, problem=error)
    return Supervision(dag_id=dag_id, unpaused=paused)


def _server(store: Store, environ: Mapping[str, str], now: float) -> AirflowServer | None:
    """The server of the connection in the environment, else the one in the store, where no account is needed.

    An account is used only at the host of its own connection: what is in the store must not receive a password.
    """
    if environ.get(variable(CONNECTION), "").strip():
        return AirflowServer.of(connection(CONNECTION, environ), timeout=TIMEOUT)
    url = store.airflow_servers.newest(now - KNOWN)
    return None if url is None else AirflowServer(url=url, timeout=TIMEOUT)
