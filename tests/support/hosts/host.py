"""A host for tests: namespaces of its own for processes, network, host name and mounts.

Each host sees its own processes alone, so a pid of one means nothing on another, and its host name is its own. A host
that is powered on again is another one to Streamwarden, as after a reboot.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from streamwarden.adapters.processes import ending_with_us
from support.hosts.network import Network, Plug
from support.hosts.share import Share

WITHIN: Final = 20.0

MOUNTS: Final = Path("/srv")
SHARED: Final = MOUNTS / "shared"
"""Where each host has the shared folder."""

SOURCE: Final = MOUNTS / "source"
"""Where the program of the shared folder finds what it passes on: the folder without faults."""

LOCAL: Final = MOUNTS / "local"
"""Where each host has a disk of its own, which it keeps when it is powered off."""

WRITERS: Final = 6000
"""The users of the hosts have numbers above this one."""

_BOOT: Final = """
set -e
hostname {name}
mount --make-rprivate /
mount --bind {hosts} /etc/hosts
mount -t tmpfs tmpfs {mounts}
mkdir {local} {shared} {source}
mount --bind {disk} {local}
mount --bind {folder} {source}
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
exec env --ignore-signal=CHLD sleep infinity
"""
"""The first process of a host ends those that nobody waits for, as an init does: it ignores the signal of their end.
Temporary files and shared memory are named after pids, which two hosts give to different processes."""


class Host:
    """A host that can be powered off and on.

    Args:
        disk: folder of its own disk.
        shared: folder that all hosts share.
        hosts: file with the names of all.

    Attributes:
        writer: the user that owns, outside, the files that this host wrote into the shared folder.
    """

    def __init__(self, plug: Plug, network: Network, disk: Path, shared: Path, hosts: Path) -> None:
        self.name, self.address, self.plug = plug.name, plug.address, plug
        self.disk = disk
        self._network, self._shared, self._hosts = network, shared, hosts
        self.writer = WRITERS + int(plug.address.rpartition(".")[2])
        self._outer: subprocess.Popen[bytes] | None = None
        self._first = 0
        self._shares: list[Share] = []
        self._entered: list[subprocess.Popen[Any]] = []

    def power_on(self) -> None:
        """Boot it, without any shared folder."""
        self._network.replug(self.name)
        self.disk.mkdir(exist_ok=True)
        places = {"mounts": MOUNTS, "local": LOCAL, "shared": SHARED, "source": SOURCE}
        boot = _BOOT.format(name=self.name, hosts=self._hosts, disk=self.disk, folder=self._shared, **places)
        isolate = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*ending_with_us(), *self.plug.prefix, *isolate, "sh", "-c", boot]
        self._outer = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._first = _await_first(self._outer)

    def power_off(self) -> None:
        """Cut the power: the cable is dead first, so that nobody learns of the end of a connection, and then all
        processes end at once, without a signal that they could handle."""
        self._network.unplug(self.name)
        if self._outer is not None:
            os.kill(self._first, signal.SIGKILL)  # the kernel ends all of a namespace with its first process
            for share in self._shares:
                share.gone()
            for entered in self._entered:  # those whose command was frozen stand still, too, and bury no child
                entered.kill()
            self._outer.wait(timeout=WITHIN)
            self._outer, self._shares, self._entered = None, [], []

    @property
    def is_on(self) -> bool:
        return self._outer is not None

    def mount(self) -> Share:
        """Mount the shared folder."""
        share = Share(SOURCE, SHARED, self.writer, self.inside)
        share.open()
        self._shares.append(share)
        return share

    def inside(self, command: Sequence[str], *, folder: Path | None = None) -> list[str]:
        """The command, to be run from outside, that runs `command` there."""
        enter = ["nsenter", f"--target={self._first}", "--net", "--uts", "--mount", "--pid", "--"]
        if folder is None:
            return [*enter, *command]
        return [*enter, "sh", "-c", f'cd {shlex.quote(str(folder))} && exec "$@"', "sh", *command]

    def start(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command there, which nobody waits for."""
        variables = dict(os.environ) | dict(env or {})
        entered = subprocess.Popen(self.inside(command, folder=folder), env=variables, **options)
        self._entered.append(entered)
        return entered

    def run(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end; what it printed is in the result."""
        return subprocess.run(
            self.inside(command, folder=folder),
            env=dict(os.environ) | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def freeze(self) -> list[psutil.Process]:
        """Stop every process, as a virtual machine that is paused; they are for `thaw`. The shared folder's program is
        stopped, too."""
        processes = self.processes()
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        return processes

    def thaw(self, processes: Sequence[psutil.Process]) -> None:
        """Let them run again."""
        for process in processes:
            if process.is_running():
                process.send_signal(signal.SIGCONT)

    def processes(self) -> list[psutil.Process]:
        """All processes of the host, as this machine numbers them, without its first one."""
        if not self.is_on:
            return []
        mine = Path(f"/proc/{self._first}/ns/pid").readlink()
        return [process for process in psutil.process_iter() if process.pid != self._first and _in(process, mine)]


def _await_first(outer: subprocess.Popen[bytes]) -> int:
    """The pid of a host's first process, once the host has booted."""
    deadline = time.monotonic() + WITHIN
    while True:
        assert outer.poll() is None, "the host did not boot"
        for child in psutil.Process(outer.pid).children():
            if child.name() == "sleep":
                return child.pid
        assert time.monotonic() < deadline, "the host does not boot"
        time.sleep(0.02)


def _in(process: psutil.Process, namespace: Path) -> bool:
    try:
        return Path(f"/proc/{process.pid}/ns/pid").readlink() == namespace
    except OSError:
        return False
