"""Exports Airflow's connections to the environment, where code that knows nothing of Airflow reads them."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from streamwarden.adapters.connections import variable
from streamwarden.errors import ConfigError


def exported(names: Iterable[str]) -> dict[str, str]:
    """Environment variable -> the connection as JSON. Raises ConfigError for one that Airflow does not know."""
    exports = {}
    for name in names:
        try:
            exports[variable(name)] = Connection.get(name).as_json()
        except AirflowNotFoundException as error:
            raise ConfigError(
                f"Airflow knows no connection {name!r}",
                expected="a connection of that id",
                where="Admin > Connections, a secrets backend, or the environment",
                next_step=f"define it: `airflow connections add {name} …`",
            ) from error
    return exports


@contextmanager
def published(names: Iterable[str]) -> Iterator[None]:
    """Put connections into this task's own environment for a while.

    A connection that Airflow does not know is left out: the stream that needs it reports the error, for itself alone.
    """
    added: dict[str, str] = {}
    for name in names:
        if variable(name) not in os.environ:
            with contextlib.suppress(ConfigError):
                added |= exported([name])
    os.environ.update(added)
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)
