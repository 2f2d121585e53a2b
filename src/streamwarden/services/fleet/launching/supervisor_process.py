"""The supervisor process: starts one driver, waits for it, enforces the deadlines of a stop and records how it ended.

Run as `python -m streamwarden.services.fleet.launching.supervisor_process FOLDER -- COMMAND…`. It detaches itself (its
own session, without a terminal or a parent), so that neither the launcher's end nor a signal to the launcher's group
reaches the driver.
While it waits it holds the standard library alone; the store is loaded only after the driver's end.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.heartbeat import Silence, killed_unresponsive
from streamwarden.services.fleet.departures import await_departure
from streamwarden.stream.spec import RestartPolicy

POLL: Final = 0.25
"""Seconds between two readings of stop.json; the end of the driver is noticed at once, by its signal."""


def main(argv: Sequence[str]) -> int:
    """Detach, run the command, wait, record. Returns at once in the process that was called."""
    folder, separator, command = Path(argv[0]), argv[1], list(argv[2:])
    if separator != "--" or not command:
        raise SystemExit("usage: supervisor_process FOLDER -- COMMAND…")
    if os.fork() > 0:
        return 0
    os.setsid()
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    see_through(folder, command)
    return 0


def see_through(folder: Path, command: Sequence[str]) -> None:
    """Start `command`, wait for its end and write `exit.json`; then record the exit in the store, if it answers.

    A standby of a pool gets the folder of a driver when it is promoted.
    """
    home, own = folder, processes.identity(os.getpid())
    if own is not None:
        files.write_document(folder / files.SUPERVISOR, dataclasses.asdict(own))
    try:
        child = _start(folder, command)
    except OSError as error:
        files.write_document(
            folder / files.EXIT,
            {
                "exit_code": 127,
                "signal": None,
                "ended_at": time.time(),
                "error": f"{command[0]}: {error.strerror}",
                "errno": error.errno,
            },
        )
        files.tidy(folder)
        _record_exit(folder)
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    process = processes.identity(child.pid)
    if process is not None:
        files.write_process(folder, process)
    sent: set[signal.Signals] = set()
    pulse = _Pulse(folder, process) if process is not None else None
    standby = _Standby(folder)
    while child.poll() is None:
        signal.sigtimedwait({signal.SIGCHLD}, POLL)
        if child.poll() is None:
            if folder == home and (folder := files.driver_of(home)) != home:
                pulse, standby = _Pulse(folder, process) if process is not None else None, _Standby(folder)
            standby.turn(child.pid)
            _enforce(folder, child.pid, sent)
            if pulse is not None and signal.SIGKILL not in sent and (problem := pulse.probe()) is not None:
                sent.add(signal.SIGKILL)
                _kill_unresponsive(folder, child.pid, problem)
    ended_at = time.time()
    # A process that the leader left behind (the Python half of a killed JVM) must not outlive it.
    processes.signal_members(child.pid, signal.SIGKILL)
    folder = files.driver_of(home)
    if standby.ended_unused():
        return
    await_departure(folder)  # until then a driver of a group has not ended
    code = child.returncode
    files.write_document(
        folder / files.EXIT,
        {"exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None, "ended_at": ended_at},
    )
    files.tidy(folder)
    if folder != home:
        _remove(home)
    _record_exit(folder)


def _start(folder: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    log = os.open(folder / files.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0, close_fds=True
        )
    finally:
        os.close(log)


def _enforce(folder: Path, group: int, sent: set[signal.Signals]) -> None:
    """Send SIGTERM at the batch deadline of a stop request and SIGKILL at its kill deadline, each once and recorded."""
    request = files.read_stop(folder)
    if request is None or request.driver_id != folder.name:
        return
    for deadline, signum in ((request.batch_deadline, signal.SIGTERM), (request.kill_deadline, signal.SIGKILL)):
        if time.time() >= deadline and signum not in sent:
            sent.add(signum)
            _send(folder, group, signum, requested_by=request.requested_by)


def _send(folder: Path, group: int, signum: signal.Signals, **why: str) -> None:
    """Send the signal to the driver's group, and record it."""
    landed = processes.signal_members(group, signum)
    detail = {"signal": signum.name, **why, "landed": str(landed).lower()}
    with contextlib.suppress(OSError):  # a full disk must keep no driver from being stopped
        files.append_event(
            folder, DriverEvent(driver_id=folder.name, at=time.time(), kind="signal_sent", detail=detail)
        )


class _Standby:
    """The driver's part in warm standbys: it has one prepared when the driver asks for it; and if this process is a
    standby itself that somebody dismissed, it ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._preparing: subprocess.Popen[bytes] | None = None

    def turn(self, group: int) -> None:
        """Called each `POLL` seconds while the process of this group lives."""
        if (self._folder / files.DISMISSED).exists():
            processes.signal_members(group, signal.SIGKILL)
        if self._preparing is not None and self._preparing.poll() is not None:
            self._preparing = None
        for wanted, module in _PREPARING.items():
            if self._preparing is None and (self._folder / wanted).exists():
                with contextlib.suppress(OSError):  # no room or no memory for it: the driver asks again
                    (self._folder / wanted).unlink()
                    self._preparing = _start(self._folder, [sys.executable, "-P", "-m", module, str(self._folder)])

    def ended_unused(self) -> bool:
        """Whether a standby ended that no launch took: nothing is recorded of it, and its folder goes."""
        if files.driver_of(self._folder) != self._folder:
            return False
        files.settle_standby(self._folder, files.DISMISSED)
        if not files.is_pooled(self._folder) and not (self._folder / files.DISMISSED).exists():
            return False
        _remove(self._folder)
        return True


_PREPARING: Final = {
    files.WANTED: "streamwarden.services.fleet.standbys.preparing",
    files.POOL_WANTED: "streamwarden.services.fleet.standbys.filling",
}
"""The modules that prepare a standby. This process does not import them: it waits for weeks."""


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        disk.remove_folder(folder, below=folder.parent.parent)


class _Pulse:
    """Detects a driver that is alive but no longer runs: its Python half reports that the JVM does not answer, or, if
    both halves were stopped, the kernel reports the JVM's process as stopped."""

    def __init__(self, folder: Path, process: ProcessIdentity) -> None:
        self._folder = folder
        self._process = process
        document = (files.read_document(folder / files.SPEC) or {}).get("restart") or {}
        self._bound = float(document.get("unresponsive_after", RestartPolicy().unresponsive_after))
        self._stopped = Silence(time.monotonic())

    def probe(self) -> ExitRecord | None:
        """Why the driver must be killed; None if it must not."""
        self._stopped = self._stopped.at(time.monotonic(), heard=not processes.is_stopped(self._process))
        if self._stopped.lasted >= self._bound:
            return killed_unresponsive(self._stopped.lasted, at=time.time(), by="its supervisor process", stopped=True)
        document = files.read_document(self._folder / files.UNRESPONSIVE)
        if document is None:
            return None
        return killed_unresponsive(float(document["silent_for"]), at=time.time(), by="its supervisor process")


def _kill_unresponsive(folder: Path, group: int, why: ExitRecord) -> None:
    """Send SIGKILL and record why, because the driver itself can no longer do so."""
    with contextlib.suppress(OSError):
        files.write_outcome(folder, why)
    _send(folder, group, signal.SIGKILL, reason=why.message)


def _record_exit(folder: Path) -> None:
    """Record the exit in the store now; if the store does not answer, the next observer of the driver does it."""
    url = os.environ.get("STREAMWARDEN_STORE_URL")
    if not url:
        return
    if (folder / files.LAUNCH).exists():
        os.nice(10)  # a standby takes over meanwhile, and its supervisor has recorded the exit before
    from streamwarden.adapters.connections import remember_all
    from streamwarden.adapters.store import Store
    from streamwarden.errors import StreamwardenError
    from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder

    remember_all(os.environ)  # the log may repeat one of its secrets
    for attempt in range(5):
        store = Store(url)
        try:
            ExitRecorder(store, time.time).observe(folder.name)
            return
        except StreamwardenError as error:
            print(f"streamwarden supervisor process: {error}", file=sys.stderr, flush=True)
            time.sleep(1 + attempt)
        finally:
            store.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
