"""The services that a fork needs: probed with their own clients, stopped and started by a drill's commands."""

import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters import processes
from streamwarden.adapters.connections import connection
from streamwarden.adapters.store import Store
from streamwarden.clusters.standalone import MASTERS
from streamwarden.drills.faults.service_outage import SERVICES, CommandResult, OutageService, ServiceStatus
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import StoreError
from streamwarden.redaction import redacted_text
from streamwarden.services.drilling.ports import Offer
from streamwarden.units import Seconds

ANSWERS_WITHIN: Final = 3
"""Seconds within which a running service answers. An open port is not an answer: the server may hang."""

_OUTPUT: Final = 2_000
"""Characters of a command's output that are kept."""

_TAIL_BYTES: Final = 64 * 1024
"""Bytes at the end of the output in which secrets are looked for, many more than are kept: a secret may be long."""

_MOST_BYTES: Final = 8 * 2**20
"""Bytes of output on the disk after which the beginning is dropped."""

_POLL: Final = 0.1
"""Seconds between two looks at how much output there is."""

_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
"""The main class of a worker, which its command line has as a separate argument."""

_WRITTEN: Final = 1 << 20
"""Bytes that a disk must take to count as available."""


class ForkServices:
    """Implements `ServiceControl`.

    Args:
        project: folder in which the commands run.
        store: Streamwarden's own.
        answers_within: seconds within which a running service answers.
    """

    def __init__(self, project: Path, store: Store | None = None, *, answers_within: int = ANSWERS_WITHIN) -> None:
        self._project = project
        self._store = store
        self._answers_within = answers_within

    def probe(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        """List the topics of a broker, run `SELECT 1` in a database, connect to a master, look for the process of a
        worker, begin a transaction in the store, or write a file beside the checkpoint."""
        match service:
            case OutageService.STORE:
                return _store(self._store)
            case OutageService.MASTER:
                return _master(fork.spec.spark.master, self._answers_within)
            case OutageService.WORKER:
                return _worker(fork.spec.spark.master)
            case OutageService.DISK:
                return _disk(Path(fork.checkpoint).parent)
        side = fork.spec.source if service is OutageService.SOURCE else fork.spec.sink
        return _PROBES[str(side.SERVICE)](str(side.connection), self._answers_within)

    def run(self, command: Sequence[str], *, within: Seconds) -> CommandResult:
        """Wait for the command, not for its background processes. A command that cannot be started has the status 127.

        At the end of `within` its process group is killed. Its output is redacted, and only the end of it is kept,
        however much it is.
        """
        with tempfile.TemporaryFile(buffering=0) as file:
            output = _Output(file.fileno())
            try:
                process = subprocess.Popen(
                    list(command),
                    cwd=self._project,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return CommandResult(status=127, output=str(error))
            status = _wait(process, time.monotonic() + within, output.bound)
            return CommandResult(status=status, output=output.tail())


class _Output:
    """The output of a command, in a file to which its background processes may write after its end.

    Its end is kept and the rest is dropped, so that the file stays small.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = b""
        # With O_APPEND a writer continues at the file's new end after it was cut.
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)

    def bound(self) -> None:
        """Drop all but the end of the output, if there is much of it."""
        if os.fstat(self._descriptor).st_size > _MOST_BYTES:
            self._kept = self._last()
            os.ftruncate(self._descriptor, 0)

    def tail(self) -> str:
        """The last `_OUTPUT` characters, without secrets."""
        text = (self._kept + self._last()).decode(errors="replace")
        return redacted_text(text)[-_OUTPUT:]

    def _last(self) -> bytes:
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))


def _wait(process: subprocess.Popen[bytes], deadline: float, meanwhile: Callable[[], None]) -> int | None:
    """The status of the process; None: it was killed at the deadline, with its group."""
    while True:
        try:
            return process.wait(timeout=max(0.0, min(_POLL, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            meanwhile()
            if time.monotonic() >= deadline:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None


def _broker(name: str, within: int) -> ServiceStatus:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from streamwarden.adapters.kafka.brokers import QUIET, client_settings, unreachable

    kafka = connection(name)
    settings: dict[str, Any] = {**client_settings(kafka), "logger": QUIET}
    shown = f"the broker {settings['bootstrap.servers']} (connection {name})"
    refused = unreachable(kafka)
    if refused is not None:
        return ServiceStatus(name=shown, answers=False, detail=refused)
    try:
        metadata = AdminClient(settings).list_topics(timeout=within)
    except KafkaException as error:
        return ServiceStatus(name=shown, answers=False, detail=str(error.args[0].str()))
    return ServiceStatus(name=shown, answers=True, detail=f"{len(metadata.topics)} topics")


def _database(name: str, within: int) -> ServiceStatus:
    import psycopg

    from streamwarden.adapters.postgresql.access import access

    parameters = dict(access(name).parameters)
    shown = f"the database {parameters.get('host')}:{parameters.get('port') or 5432} (connection {name})"
    try:
        with psycopg.connect(**{**parameters, "connect_timeout": within}) as session:
            session.execute("SELECT 1")
    except psycopg.OperationalError as error:
        return ServiceStatus(name=shown, answers=False, detail=" ".join(str(error).split()))
    return ServiceStatus(name=shown, answers=True)


def _store(store: Store | None) -> ServiceStatus:
    name = "the store of Streamwarden"
    if store is None:
        return ServiceStatus(name=name, answers=False, detail="this process has no store")
    try:
        store.require_answer()
    except StoreError as error:
        return ServiceStatus(name=name, answers=False, detail=error.observed)
    return ServiceStatus(name=name, answers=True)


def _master(master: str, within: int) -> ServiceStatus:
    """One of several masters is enough."""
    refused = []
    for address in MASTERS.named_by(master).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=within).close()
        except (OSError, ValueError) as error:
            refused.append(f"{address}: {error}")
        else:
            return ServiceStatus(name=f"the master {master}", answers=True, detail=address)
    return ServiceStatus(name=f"the master {master}", answers=False, detail="; ".join(refused))


def _worker(master: str) -> ServiceStatus:
    """Workers are processes of this host that name the master."""
    workers = [pid for pid, command in processes.commands().items() if _WORKER in command and master in command]
    name = f"the workers of {master} on this host"
    return ServiceStatus(name=name, answers=bool(workers), detail=f"{len(workers)} processes of {_WORKER}")


def _disk(folder: Path) -> ServiceStatus:
    """A disk answers if it takes as much as a small batch writes."""
    name = f"the disk of {folder}"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_WRITTEN))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return ServiceStatus(name=name, answers=False, detail=str(error))
    return ServiceStatus(name=name, answers=True, detail=f"it took {_WRITTEN:,} bytes")


_PROBES: Final = {"broker": _broker, "database": _database}
"""What serves a source or a sink -> how it is asked. `ServiceOutage.require` has refused a side that nothing serves."""


OFFERS: Final = (Offer(SERVICES, lambda at: ForkServices(at.project, at.store)),)
