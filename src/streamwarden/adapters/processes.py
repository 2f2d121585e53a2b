"""Processes of this host, read from `/proc`: their identity, whether they are alive, their memory, and signals to them.

Standard library only: the supervisor process, which waits for weeks for each driver, imports this module.
"""

import contextlib
import os
import platform
import select
import shutil
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

from streamwarden.lifecycle.driver import ProcessIdentity

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_DEAD: Final = frozenset("ZXx")
"""States of `/proc/PID/stat` in which a process runs no more: zombie and dead."""


HOST_VARIABLE: Final = "STREAMWARDEN_HOST"
"""Names this host where the system's own name is not unique or changes, as in containers."""


@lru_cache(maxsize=1)
def this_host() -> str:
    """Host name, boot id and pid namespace: a reboot and another container are other hosts. See `HOST_VARIABLE`."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:[").removesuffix("]")
    name = os.environ.get(HOST_VARIABLE, "").replace("/", "-") or platform.node()
    return f"{name}/{boot}/{namespace}"


def identity(pid: int) -> ProcessIdentity | None:
    """The living process `pid` of this host, or None if there is none."""
    fields = _stat(pid)
    if fields is None or fields[0] in _DEAD:
        return None
    return ProcessIdentity(host=this_host(), pid=pid, started_at=int(fields[19]))


def is_alive(process: ProcessIdentity) -> bool | None:
    """Whether this very process is alive; None if it belongs to another host and cannot be seen."""
    if process.host != this_host():
        return None
    return identity(process.pid) == process


def await_end(process: ProcessIdentity, timeout: float) -> bool:
    """Wait until this very process has ended, for `timeout` seconds at most; returns whether it has."""
    if process.host != this_host():
        time.sleep(timeout)
        return False
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # it has ended, or this kernel has no such descriptors
        if is_alive(process):
            time.sleep(timeout)
        return not is_alive(process)
    try:
        if is_alive(process):
            watch = select.poll()  # select() takes no descriptor above 1023
            watch.register(descriptor, select.POLLIN)
            watch.poll(timeout * 1000)
    finally:
        os.close(descriptor)
    return not is_alive(process)


def is_stopped(process: ProcessIdentity) -> bool:
    """Whether the kernel has stopped this very process (SIGSTOP); one that a debugger traces is not."""
    fields = _stat(process.pid)
    return fields is not None and fields[0] == "T" and int(fields[19]) == process.started_at


def signal_group(process: ProcessIdentity, signum: int) -> bool:
    """Send `signum` to the process group of `process`; False if this very process is not alive.

    A driver leads its group, except in a container of YARN, where a shell does. A group outlives its leader, so the
    members that a dead leader left behind are reached with `signal_members`.
    """
    if not is_alive(process):
        return False
    try:
        group = os.getpgid(process.pid)
    except ProcessLookupError:
        return False
    return signal_members(group, signum)


def signal_members(group: int, signum: int) -> bool:
    """Send `signum` to every process of the group; False if it has none. Never this process's own group."""
    if group <= 1 or group == os.getpgrp():
        return False
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_one(process: ProcessIdentity, signum: int) -> bool:
    """Send `signum` to this very process and no other; False if it is not alive. Raises PermissionError."""
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, signum)
    except ProcessLookupError:
        return False
    return True


def commands() -> dict[int, list[str]]:
    """The command line of every process of this host that this user may see, by pid."""
    lines = {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/cmdline").read_bytes()
            lines[pid] = text.decode(errors="replace").rstrip("\0").split("\0")
    return lines


def with_variable(name: str, value: str) -> list[ProcessIdentity]:
    """Every living process of this user that was started with the environment variable `name` set to `value`."""
    entry = f"{name}={value}".encode()
    processes = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if entry in variables and (process := identity(pid)) is not None:
                processes.append(process)
    return processes


def resident_bytes(process: ProcessIdentity) -> int | None:
    """Resident memory of the process and everything below it (JVM, Python driver, Python workers); None if dead."""
    if not is_alive(process):
        return None
    return sum(_resident(pid) for pid in tree(process.pid))


def tree(root: int) -> list[int]:
    """`root` and the pids of all its descendants."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if (fields := _stat(pid)) is not None:
            children.setdefault(int(fields[1]), []).append(pid)
    pids = [root]
    for pid in pids:
        pids.extend(children.get(pid, ()))
    return pids


def _pids() -> list[int]:
    """The pids of this host, as far as this process may see them."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _stat(pid: int) -> list[str] | None:
    """Fields of `/proc/PID/stat` from the third (state) on; the name before them may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def ending_with_us() -> tuple[str, ...]:
    """Command prefix that makes the kernel kill a command when this process dies, whatever kills it."""
    setpriv = shutil.which("setpriv")
    return () if setpriv is None else (setpriv, "--pdeathsig", "KILL", "--")
