"""A process that is killed before its n-th change of a folder, for tests of what an interruption leaves.

Such processes are forked from one that this module starts: a fork of the tests' own process, which has imported so
much, takes five times as long. What is run must therefore be picklable.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any

from streamwarden.services.savepoints.documents import schema

_CHANGES = ("os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a process that is killed (SIGKILL) before its n-th change of a folder; False: it ended before."""
    status, _ = _ask(step, work)
    return os.WIFSIGNALED(status)


def status_of(work: Callable[[], object]) -> int:
    """Run `work` in a process; returns its status, as `os.waitpid` gives it."""
    status, _ = _ask(0, work)
    return status


def changes_of(work: Callable[[], object]) -> int:
    """Run `work` in a process; returns how many changes it makes."""
    _, changes = _ask(0, work)
    return changes


def _ask(step: int, work: Callable[[], object]) -> tuple[int, int]:
    """The status of the process that ran `work`, and how many changes it made."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    pickle.dump((step, work), server.stdin)
    server.stdin.flush()
    answer: tuple[int, int] = pickle.load(server.stdout)
    return answer


def end() -> None:
    """End the process that forks, if there is one."""
    if _server.cache_info().currsize:
        _server().communicate()
        _server.cache_clear()


@cache
def _server() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path.cwd()), *sys.path))}
    command = [sys.executable, "-m", "support.killed"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the work prints is no answer
    counted = mmap(-1, 8)
    schema()  # builds once what reads and writes the manifest of a savepoint, which takes longer than most works
    gc.freeze()
    while True:
        try:
            step, work = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        counted[:] = bytes(8)
        child = os.fork()
        if child == 0:
            _run(step, work, counted)
        _, status = os.waitpid(child, 0)
        answers.write(pickle.dumps((status, int.from_bytes(counted[:]))))


def _run(step: int, work: Callable[[], object], counted: mmap) -> None:
    sys.addaudithook(lambda event, arguments: _count(step, counted, event, arguments))
    try:
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _count(step: int, counted: mmap, event: str, arguments: tuple[Any, ...]) -> None:
    """Count each change, and kill this process before the one that is asked for."""
    creates = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & os.O_CREAT)
    if event in _CHANGES or creates:
        made = int.from_bytes(counted[:]) + 1
        counted[:] = made.to_bytes(8)
        if made == step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _serve()
