"""A process that is killed before its n-th change of a folder, for tests of what an interruption leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

_CHANGES = ("os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed (SIGKILL) before its n-th change of a folder; False: it ended before."""
    child = os.fork()
    if child == 0:
        try:
            _count(step)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def changes_of(work: Callable[[], object]) -> int:
    """Run `work` in a child; returns how many changes it makes."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            counted = _count(0)
            work()
            os.write(writes, str(-counted[0]).encode())
        finally:
            os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads) as told:
        return int(told.read())


def _count(step: int) -> list[int]:
    """Count down with each change, and kill this process at 0."""
    left = [step]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        creates = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & os.O_CREAT)
        if event in _CHANGES or creates:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    return left
