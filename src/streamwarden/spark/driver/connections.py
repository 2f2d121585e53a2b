"""Samples the connections of a fork's driver and of the processes that it starts, by what the kernel says of them.

Python's audit events show connections of Python code in the driver alone. Python's workers, libraries in C and Java
code open theirs unseen. A connection that is shorter than the time between two samples may be missed.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters.connections import connection
from streamwarden.clusters import manager_of
from streamwarden.errors import ConfigError
from streamwarden.health.signals.services import needs
from streamwarden.health.window import Service
from streamwarden.stream.spec import StreamSpec

PROC: Final = Path("/proc")
_EACH: Final = 1.0
_ESTABLISHED: Final = "01"
_MAPPED: Final = "::ffff:"
_SOCKET: Final = "socket:["

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection of a process."""

    pid: int
    here: Address
    there: Address


def watch_connections(spec: StreamSpec, record: Callable[[str], None]) -> None:
    """From now on, `record` each server that this driver or a process that it started connects to by itself."""
    if not (PROC / "net/tcp").exists():
        return
    samples = Samples(spec)

    def sample() -> None:
        while True:
            with contextlib.suppress(OSError, ValueError):
                for server in samples.take():
                    record(server)
            time.sleep(_EACH)

    threading.Thread(target=sample, name="connections", daemon=True).start()


class Samples:
    """The servers that were not seen before. Those that are connected at first, before the job runs, are known: they
    belong to Streamwarden and to Spark."""

    def __init__(self, spec: StreamSpec, proc: Path = PROC) -> None:
        own, self._root = os.getpid(), _root(proc)
        self._proc = proc
        self._hidden = frozenset({own, self._root}) if _connects_itself(spec) else frozenset[int]()
        self._known = {connected.there for connected in connections(proc, self._root)} | set(_declared(spec))

    def take(self) -> list[str]:
        """What is new, as `host:port`. Raises OSError, ValueError if the kernel's lists cannot be read."""
        found = servers(list(connections(self._proc, self._root)), self._hidden)
        new = [server for server in found if server not in self._known]
        self._known.update(new)
        return [f"{host}:{port}" for host, port in new]


def servers(open_now: Collection[Connected], hidden: Collection[int]) -> list[Address]:
    """The servers outside of these processes. Pure. `hidden`: processes whose own connections do not count."""
    inside = {connected.here for connected in open_now}
    found = (one.there for one in open_now if one.pid not in hidden and one.there not in inside)
    return list(dict.fromkeys(found))


def connections(proc: Path, root: int) -> Iterator[Connected]:
    """The established connections of a process and of its descendants."""
    tables = {inode: ends for name in ("tcp", "tcp6") for inode, ends in _table(proc / "net" / name)}
    for pid in _tree(proc, root):
        for inode in _sockets(proc / str(pid) / "fd"):
            if inode in tables:
                yield Connected(pid, *tables[inode])


def _table(file: Path) -> Iterator[tuple[str, tuple[Address, Address]]]:
    """The established connections that the kernel lists, by their inodes."""
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED:
                yield fields[9], (_address(fields[1]), _address(fields[2]))


def _address(text: str) -> Address:
    """`0100007F:1F90`: the words of the address are of this machine's byte order."""
    digits, _, port = text.partition(":")
    words = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, words).removeprefix(_MAPPED), int(port, 16)


def _tree(proc: Path, root: int) -> set[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, pending = set[int](), [root]
    while pending:
        pid = pending.pop()
        found.add(pid)
        pending += (child for child in children.get(pid, ()) if child not in found)
    return found


def _sockets(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for link in folder.iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith(_SOCKET):
                    yield target.removeprefix(_SOCKET).rstrip("]")


def _root(proc: Path) -> int:
    """The JVM, whose child this process is; itself, if it has started the JVM."""
    parent = os.getppid()
    with contextlib.suppress(OSError):
        if (proc / str(parent) / "comm").read_text().strip() == "java":
            return parent
    return os.getpid()


def _declared(spec: StreamSpec) -> Iterator[Address]:
    """The servers of the stream's declared connections."""
    for need in needs(spec):
        with contextlib.suppress(ConfigError, OSError):
            known = connection(need.connection)
            for found in socket.getaddrinfo(known.host, known.port or 5432, type=socket.SOCK_STREAM):
                yield str(found[4][0]), int(found[4][1])


def _connects_itself(spec: StreamSpec) -> bool:
    """Whether Spark and Streamwarden connect to servers that no setting lists: the brokers of a cluster, an object
    store, executors. A script may read and write any of these."""
    brokers = any(need.service is Service.BROKER for need in needs(spec))
    return brokers or bool(spec.in_object_store) or spec.fork is not None or manager_of(spec.spark.master).has_executors
