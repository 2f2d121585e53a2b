"""The semaphore and the shared memory that libfaketime wants all processes of one clock to share.

Without them each first process of a family makes its own, named after its process id, and removes them when it ends.
A driver's launcher ends while the driver's wrapper scripts start; a shell that starts in just that moment makes new
ones and cannot pass their names on, and the next program of the same process id finds them and exits with code 1. A
killed process leaves its own behind. So the drill makes them before any driver starts, and removes them in its healing.
"""

import ctypes
import os
from typing import Final

_MODE: Final = 0o600
_FRESH: Final = bytes(16) + b"\xff" * 64
"""`struct ft_shared_s`: two counters at zero, and start times of -1, which the first process sets."""


class ClockMemory:
    """A named semaphore and a named shared memory of this host.

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
