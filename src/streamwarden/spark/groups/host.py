"""The host of a group: lets drivers into its JVM, and ends their queries when their processes have ended.

A driver connects once and keeps the connection, which the kernel closes when its process ends, however that happens. So
the host learns of each end at once, without asking. A query that outlived its process for a moment writes what its
driver would have written: the next driver starts only after the host has seen its end (see `departures`). If a query
cannot be ended, the host ends the JVM.
"""

import contextlib
import json
import os
import secrets
import signal
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge, wait
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.groups.group import EMPTY_FOR, Door
from streamwarden.services.fleet.departures import LEAVES_WITHIN
from streamwarden.services.fleet.groups.hosts import LOCK, MEMBERS, shut_if, write_door
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE
from streamwarden.spark.internals.sharing.gateways import Gateway, open_gateway
from streamwarden.spark.log import cap_log, say
from streamwarden.units import Seconds

LOOK_EVERY: Final[Seconds] = 0.5

BACKLOG: Final = 64
"""Drivers that may knock at once."""

LONGEST_REQUEST: Final = 65536
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a driver says when it knocks.

    Args:
        folder: the driver's.
    """

    folder: str
    stream: str
    checkpoint: str
    process: ProcessIdentity

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> "Request":
        """Raises ValueError, KeyError or TypeError for anything else."""
        document = json.loads(text)
        return cls(**{**document, "process": ProcessIdentity(**document["process"])})


class GroupHost:
    """Runs in the Python process that the group's spark-submit started.

    Args:
        session: of the JVM; no query runs in it.
        jvm: this process's parent.
        empty_for: seconds without a driver after which the host ends.
    """

    def __init__(self, folder: Path, session: Any, jvm: ProcessIdentity, *, empty_for: Seconds = EMPTY_FOR) -> None:
        self._folder = folder
        self._session = session
        self._jvm = jvm
        self._empty_for = empty_for
        self._key = secrets.token_hex(32)
        self._members: set[str] = set()
        self._lock = threading.Lock()
        self._left_at = time.monotonic()
        self._stuck = threading.Event()

    def serve(self) -> int:
        """Let drivers in until none is left for some time; returns the exit code. Ends with the JVM."""
        with Listener(("127.0.0.1", 0), backlog=BACKLOG) as listener:
            port = int(listener.address[1])
            threading.Thread(target=self._accept, args=(listener,), name="group door", daemon=True).start()
            write_door(self._folder, Door(port=port, key=self._key, jvm=self._jvm))
            say(f"the JVM of the group is ready (pid {self._jvm.pid})")
            while not self._stuck.wait(LOOK_EVERY):
                if os.getppid() != self._jvm.pid:
                    os._exit(137)
                cap_log(self._folder / files.LOG)
                if self._is_done():
                    say("no driver is left in the group: its JVM ends")
                    return 0
        say("a query could not be ended: the JVM ends, and every driver of the group with it")
        return 1

    def _is_done(self) -> bool:
        """Whether no driver came for long; from then on none can."""
        if self._members or time.monotonic() - self._left_at < self._empty_for:
            return False
        with disk.locked(self._folder.parent / LOCK), self._lock:
            return shut_if(self._folder, not self._members)

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except OSError:  # the listener was closed
                return
            threading.Thread(target=self._attend, args=(connection,), name="group member", daemon=True).start()

    def _attend(self, connection: Connection) -> None:
        """See one driver from its knock to its end."""
        with connection, contextlib.suppress(EOFError, OSError, AuthenticationError):
            deliver_challenge(connection, self._key.encode())
            answer_challenge(connection, self._key.encode())
            request = Request.from_bytes(connection.recv_bytes(LONGEST_REQUEST))
            self._see_through(request, connection)

    def _see_through(self, request: Request, connection: Connection) -> None:
        driver = Path(request.folder)
        self._count(driver.name, present=True)
        gateway = None
        try:
            gateway = open_gateway(self._session)
            files.write_membership(driver, self._jvm)
            connection.send_bytes(json.dumps({"port": gateway.port, "secret": gateway.secret}).encode())
            say(f"{driver.name} joined")
            _await_end(request.process, connection)
        except Exception:  # whatever it is, what the driver has begun is ended below
            say(f"{driver.name}: {traceback.format_exc()}")
        finally:
            if gateway is not None:
                self._let_out(request, driver, gateway)
            self._count(driver.name, present=False)

    def _let_out(self, request: Request, driver: Path, gateway: Gateway) -> None:
        """End what the driver left in the JVM; the JVM itself if that does not work."""
        try:
            ended = gateway.end_queries(request.checkpoint, LEAVES_WITHIN)
        except Exception:  # the JVM is going down, or this process does not know it any more
            say(f"{driver.name}: {traceback.format_exc()}")
            ended = False
        if not ended:
            self._stuck.set()
            return
        gateway.close()
        self._end_workers(driver)
        (driver / files.LEFT).touch(disk.PRIVATE)
        say(f"{driver.name} left")

    def _end_workers(self, driver: Path) -> None:
        """End the driver's Python workers: the JVM started them, and keeps them for tasks that will not come."""
        ours = set(processes.tree(self._jvm.pid))
        for worker in processes.with_variable(FOLDER_VARIABLE, str(driver)):
            if worker.pid in ours:
                processes.signal_one(worker, signal.SIGKILL)

    def _count(self, driver: str, *, present: bool) -> None:
        with self._lock:
            (self._members.add if present else self._members.discard)(driver)
            self._left_at = time.monotonic()
            with contextlib.suppress(OSError):  # it is for a measurement only
                files.write_document(self._folder / MEMBERS, {"count": len(self._members)})


def _await_end(process: ProcessIdentity, connection: Connection) -> None:
    """Wait until the process ended. It alone has the connection, but for programs that it forked."""
    descriptor = os.pidfd_open(process.pid)
    try:
        if processes.is_alive(process):
            wait([connection, descriptor])
    finally:
        os.close(descriptor)
