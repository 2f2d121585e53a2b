"""A network of this machine alone: a switch and network namespaces that are plugged into it. It needs root.

Nothing outside can reach it, and nothing in it can reach the outside: no namespace has a route out of the switch.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pytest

Result = TypeVar("Result")

_SUBNET: Final = "10.77.0"
_NOWHERE: Final = "02:00:00:00:00:01"
"""A hardware address that nobody has: what is sent to it is lost, as behind a broken switch, and nobody is told."""

_PLACE: Final = Path("/run/netns")
_NEW_NETWORK: Final = 0x40000000
_NUMBERS: Final = itertools.count()


def require() -> None:
    """Skip the test where hosts cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("hosts are namespaces of the kernel, which only root may create")
    missing = [program for program in ("ip", "unshare", "nsenter") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"hosts need {', '.join(missing)}: apt-get install iproute2 util-linux")
    made = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True, text=True, timeout=20)
    if made.returncode != 0:
        pytest.skip(f"this machine lets nobody create namespaces: {made.stderr.strip()}")


@dataclass(frozen=True)
class Plug:
    """One end of the network: a namespace with one address."""

    name: str
    namespace: str
    address: str

    @property
    def prefix(self) -> list[str]:
        """With which a command runs there, among this machine's mounts: `ip netns exec` hides the control groups."""
        return ["nsenter", f"--net={_PLACE / self.namespace}", "--"]

    @contextmanager
    def inhabited(self) -> Iterator[None]:
        """This thread, and the threads and processes that it starts in this block, are there."""
        home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
        try:
            _enter(self.namespace)
            yield
        finally:
            _move(home)
            os.close(home)

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of `function`, whose connections are made from there. It runs in a thread of its own."""
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                _enter(self.namespace)
                results.append(function())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, name=f"in {self.namespace}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]


class Network:
    """A switch, and what is plugged into it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._switch = f"{name}-switch"
        self.plugs: dict[str, Plug] = {}
        self._cut: set[frozenset[str]] = set()

    def open(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "name", "switch0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch0", "up")

    def plug(self, name: str) -> Plug:
        """A new namespace, which reaches all others."""
        number = len(self.plugs) + 1
        plug = Plug(name, f"{self._name}-{name}", f"{_SUBNET}.{number}")
        self.plugs[name] = plug
        _ip("netns", "add", plug.namespace)
        port = f"port{number}"
        _ip(
            "-n",
            self._switch,
            "link",
            "add",
            "name",
            port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            plug.namespace,
        )
        _ip("-n", self._switch, "link", "set", port, "master", "switch0", "up")
        _ip("-n", plug.namespace, "address", "add", f"{plug.address}/24", "dev", "eth0")
        _ip("-n", plug.namespace, "link", "set", "lo", "up")
        _ip("-n", plug.namespace, "link", "set", "eth0", "up")
        return plug

    def cut(self, one: str, other: str) -> None:
        """Lose all that either sends to the other from now on, also on connections that they have. Nobody is told."""
        for mine, theirs in ((one, other), (other, one)):
            self._neighbour("replace", mine, theirs, "lladdr", _NOWHERE, "nud", "permanent")
        self._cut.add(frozenset((one, other)))

    def heal(self, one: str, other: str) -> None:
        """Undo `cut`."""
        if frozenset((one, other)) in self._cut:
            for mine, theirs in ((one, other), (other, one)):
                self._neighbour("delete", mine, theirs)
            self._cut.remove(frozenset((one, other)))

    def unplug(self, name: str) -> None:
        """Pull the cable: nothing is sent any more, not even that a connection ends."""
        _ip("-n", self.plugs[name].namespace, "link", "set", "eth0", "down")

    def replug(self, name: str) -> None:
        """Undo `unplug`."""
        _ip("-n", self.plugs[name].namespace, "link", "set", "eth0", "up")

    def close(self) -> None:
        for namespace in (*(plug.namespace for plug in self.plugs.values()), self._switch):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, timeout=20)

    def _neighbour(self, change: str, mine: str, theirs: str, *more: str) -> None:
        address, namespace = self.plugs[theirs].address, self.plugs[mine].namespace
        _ip("-n", namespace, "neighbour", change, address, *more, "dev", "eth0")


@contextmanager
def network() -> Iterator[Network]:
    """A network; its namespaces are removed at the end. What still runs in one keeps it, out of everybody's reach."""
    made = Network(f"streamwarden-{os.getpid()}-{next(_NUMBERS)}")
    try:
        made.open()
        yield made
    finally:
        made.close()


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _enter(namespace: str) -> None:
    """Move this thread, and no other, into a network namespace."""
    descriptor = os.open(_PLACE / namespace, os.O_RDONLY)
    try:
        _move(descriptor)
    finally:
        os.close(descriptor)


def _move(namespace: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "this thread cannot enter the network namespace")
