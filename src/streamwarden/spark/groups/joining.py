"""How a driver of a group gets into the group's JVM, which it starts if it is the first."""

import json
import os
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.lifecycle.groups.group import POOL, STARTS_WITHIN, Door, session_settings
from streamwarden.services.fleet.groups.hosts import await_door, find_or_start, has_ended
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE, driver_settings
from streamwarden.spark.groups.engine import Engine
from streamwarden.spark.groups.host import LONGEST_REQUEST, Request
from streamwarden.spark.internals.sharing.gateways import join_session
from streamwarden.spark.log import say
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Membership:
    """What a driver of a group works with.

    Args:
        connection: to the host, which takes its end for the driver's: it stays open.
    """

    engine: Engine
    session: Any
    connection: Connection


def join(
    spec: StreamSpec,
    folder: Path,
    environ: MutableMapping[str, str] = os.environ,
    *,
    within: Seconds = STARTS_WITHIN,
) -> Membership:
    """Get into the JVM of the stream's group. Raises ProcessError, ConfigError.

    PySpark finds the gateway in the environment, as it finds spark-submit's in another driver's.
    """
    data, deadline = folder.parents[2], time.monotonic() + within
    while True:
        host = find_or_start(spec, data, environ)
        door = await_door(host, deadline - time.monotonic())
        found = None if door is None else _knock(door, spec, folder)
        if door is not None and found is not None:
            break
        if time.monotonic() > deadline:
            raise _closed(host, within)
        wait_until(partial(has_ended, host), within=1.0, every=0.05)
    connection, gateway = found
    environ.update({"PYSPARK_GATEWAY_PORT": str(gateway["port"]), "PYSPARK_GATEWAY_SECRET": gateway["secret"]})
    settings = session_settings(driver_settings(spec, folder, data, environ))
    session = join_session(_of_workers(spec, folder, environ), settings, {POOL: spec.name})
    say(f"joined the group {spec.group}: its JVM has the pid {door.jvm.pid} and the log {host / 'driver.log'}")
    return Membership(Engine.of_group(door.jvm, str(spec.group), host), session, connection)


def _knock(door: Door, spec: StreamSpec, folder: Path) -> tuple[Connection, dict[str, Any]] | None:
    """A connection to the host, and the gateway that it opened; None: it let nobody in, and has perhaps just ended."""
    process = processes.identity(os.getpid())
    assert process is not None
    request = Request(folder=str(folder), stream=spec.name, checkpoint=spec.checkpoint, process=process)
    try:
        connection = Client(("127.0.0.1", door.port), authkey=door.key.encode())
        connection.send_bytes(request.to_bytes())
        return connection, json.loads(connection.recv_bytes(LONGEST_REQUEST))
    except (OSError, EOFError, AuthenticationError):
        return None


def _of_workers(spec: StreamSpec, folder: Path, environ: MutableMapping[str, str]) -> dict[str, str]:
    """The variables of the driver's Python workers. Spark keeps workers with other variables apart: a worker never has
    the modules of another stream, or of an older driver of this one."""
    asked = {name: environ[name] for name in spec.spark.env}
    return {**asked, "PYTHONPATH": str(Path(spec.job).parent), FOLDER_VARIABLE: str(folder)}


def _closed(host: Path, within: Seconds) -> ProcessError:
    return ProcessError(
        f"the host of the group let this driver in on no attempt within {within:.0f} s",
        expected="a host that answers",
        where=str(host),
        next_step="nothing to do if the stream is restarted; else read driver.log there",
    )
