"""The clock of a fork's drivers: libfaketime, loaded into their processes, reads from a file how far it is off."""

import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.drills.faults.driver.clock_step import DRIVER_CLOCK
from streamwarden.errors import DrillAborted
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports import Offer
from streamwarden.units import Seconds

CLOCK: Final = "clock"
"""The file in the folder of a run: signed seconds."""

_RIGHT: Final = "+0"
_PACKAGE: Final = "libfaketime"
_LIBRARY: Final = Path("vendor", "libfaketime", "src", "libfaketime.so.1")
_PROBED: Final = 3600
_TOLERANCE: Final = 60.0
_WITHIN: Final = 30.0
"""Seconds for the start of an interpreter."""
_MODE: Final = 0o600
_FRESH: Final = bytes(16) + b"\xff" * 64
"""`struct ft_shared_s`: two counters at zero, and start times of -1, which the first process sets."""


class ClockMemory:
    """The named semaphore and the named shared memory of this host that libfaketime wants all processes of one clock
    to share.

    Without them each first process of a family makes its own, named after its process id, and removes them when it
    ends. A driver's launcher ends while the driver's wrapper scripts start; a shell that starts in just that moment
    makes new ones and cannot pass their names on, and the next program of the same process id finds them and exits with
    code 1. A killed process leaves its own behind. So the drill makes them before any driver starts, and removes them
    in its healing.

    Args:
        name: of both, without a slash.
    """

    def __init__(self, name: str) -> None:
        self._names = (f"/{name}-semaphore", f"/{name}-memory")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.sem_open.restype = ctypes.c_void_p
        self._libc.sem_close.argtypes = (ctypes.c_void_p,)

    def create(self) -> str:
        """Create what is missing. Returns the value of `FAKETIME_SHARED`. Raises OSError."""
        semaphore, memory = self._names
        opened = self._libc.sem_open(semaphore.encode(), os.O_CREAT, ctypes.c_uint(_MODE), ctypes.c_uint(1))
        if not opened:
            raise _failed(semaphore)
        self._libc.sem_close(opened)
        descriptor = self._libc.shm_open(memory.encode(), os.O_CREAT | os.O_RDWR, ctypes.c_uint(_MODE))
        if descriptor < 0:
            raise _failed(memory)
        try:
            if os.fstat(descriptor).st_size == 0:
                os.pwrite(descriptor, _FRESH, 0)
        finally:
            os.close(descriptor)
        return f"{semaphore} {memory}"

    def remove(self) -> None:
        """Remove both, if they exist. Processes that use them keep them; no process can start with them."""
        semaphore, memory = self._names
        self._libc.sem_unlink(semaphore.encode())
        self._libc.shm_unlink(memory.encode())


def _failed(name: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), name)


class ForkClock:
    """Implements `DriverClock`."""

    def __init__(self, archive: DrillArchive) -> None:
        self._archive = archive

    def require(self) -> None:
        """Read a clock that is an hour ahead in a process of this host."""
        library = _library()
        if library is None:
            raise _unusable(f"the package {_PACKAGE} is not installed")
        with tempfile.TemporaryDirectory(prefix="streamwarden-clock-") as folder:
            file, memory = Path(folder) / CLOCK, ClockMemory(Path(folder).name)
            disk.replace(file, f"+{_PROBED}")
            try:
                ahead = _told(_environment(library, file, memory)) - _told({})
            finally:
                memory.remove()
        if not abs(ahead - _PROBED) < _TOLERANCE:
            raise _unusable(f"{library} has no effect: its clock is {round(ahead)} s ahead instead of {_PROBED} s")

    def provide(self, run_id: str) -> None:
        """Write the file, which each driver of the run is started with."""
        disk.replace(self._file(run_id), _RIGHT)

    def step(self, run_id: str, by: Seconds) -> None:
        disk.replace(self._file(run_id), f"{by:+.3f}")

    def reset(self, run_id: str) -> bool:
        file = self._file(run_id)
        if not file.exists() or file.read_text() == _RIGHT:
            return False
        disk.replace(file, _RIGHT)
        return True

    def environment(self, run_id: str) -> Mapping[str, str]:
        """Variables that give a driver the run's clock; empty for a run without one."""
        file, library = self._file(run_id), _library()
        return _environment(library, file, _memory(run_id)) if library is not None and file.exists() else {}

    def remove(self, run_id: str) -> None:
        """Remove its shared memory; the file stays with the run."""
        _memory(run_id).remove()

    def _file(self, run_id: str) -> Path:
        return self._archive.folder(run_id) / CLOCK


def _library() -> Path | None:
    """The package's library file. The package is not imported: that would change this process."""
    package = importlib.util.find_spec(_PACKAGE)
    folders = (package.submodule_search_locations or ()) if package is not None else ()
    return next((path for folder in folders if (path := Path(folder) / _LIBRARY).is_file()), None)


def _memory(run_id: str) -> ClockMemory:
    return ClockMemory(f"streamwarden-{run_id}")


def _environment(library: Path, file: Path, memory: ClockMemory) -> dict[str, str]:
    """The variables for that clock. Raises DrillAborted if this host has no shared memory."""
    try:
        shared = memory.create()
    except OSError as error:
        raise _unusable(f"this host gives it no shared memory: {error}") from error
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",  # seconds until the file is read again
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with 1, a timed wait of the JVM returns at once
        "NO_FAKE_STAT": "1",  # the times of files are the host's
        "FAKETIME_SHARED": shared,
    }


def _told(environment: Mapping[str, str]) -> float:
    """The time that a new process sees, Unix seconds; NaN if it fails."""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", "import time; print(time.time())"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_WITHIN,
        check=False,
    )
    return float(ran.stdout) if ran.returncode == 0 else float("nan")


def _unusable(observed: str) -> DrillAborted:
    return DrillAborted(
        f"the clock of a driver cannot be stepped: {observed}",
        expected="a libfaketime that works on this host: x86-64 and glibc",
        where=f"this host, {sys.prefix}",
        next_step="install `streamwarden[clock]`, or drill the stream with another fault",
    )


OFFERS: Final = (Offer(DRIVER_CLOCK, lambda at: ForkClock(at.archive)),)
