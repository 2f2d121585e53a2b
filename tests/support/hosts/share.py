"""A shared folder as one host has it: a file system of its own, over a program that passes all on to the folder.

The program can stand still, and then whoever touches the folder hangs, as with a server of files that is cut off. It
can also end, and then whoever touches it gets an error.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import psutil
import pytest

from support.servers.programs import unpacked

_PACKAGES: Final = ("bindfs", "libfuse2")
WITHIN: Final = 20.0


def require() -> None:
    """Skip the test where no such file system can be made."""
    _bindfs()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("a shared folder that can be cut off needs /dev/fuse")


@lru_cache(maxsize=1)
def _bindfs() -> tuple[str, dict[str, str]]:
    """The program that passes a folder on, and the environment that it needs."""
    folder = unpacked("bindfs", _PACKAGES)
    libraries = ":".join(str(path) for path in folder.glob("lib/*"))
    return str(folder / "usr/bin/bindfs"), {**os.environ, "LD_LIBRARY_PATH": libraries}


class Share:
    """One host's mount of the shared folder.

    Args:
        writer: the user that owns what this host writes; every host sees root as the owner of all.
        inside: turns a command into one that runs on the host.
    """

    def __init__(self, folder: Path, at: Path, writer: int, inside: Callable[[Sequence[str]], list[str]]) -> None:
        self._folder, self._at, self._inside = folder, at, inside
        self.writer = writer
        self._outer: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Mount it, and wait until it is there."""
        owners = ["--force-user=root", f"--create-for-user={self.writer}", "--chown-ignore"]
        program, environment = _bindfs()
        mount = [program, "-f", "--multithreaded", *owners, str(self._folder), str(self._at)]
        self._outer = subprocess.Popen(self._inside(mount), stdin=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + WITHIN
        while subprocess.run(self._inside(["mountpoint", "-q", str(self._at)]), timeout=WITHIN).returncode != 0:
            assert self._outer.poll() is None, "the shared folder could not be mounted"
            assert time.monotonic() < deadline, "the shared folder is not mounted"
            time.sleep(0.05)

    def hang(self) -> None:
        """Let whoever touches the folder wait, until `heal`."""
        self._signal(signal.SIGSTOP)

    def heal(self) -> None:
        """Answer again, first what was asked meanwhile."""
        self._signal(signal.SIGCONT)

    def lose(self) -> None:
        """Let everything that touches the folder fail at once (ENOTCONN)."""
        self._signal(signal.SIGKILL)
        self.gone()

    def gone(self) -> None:
        """The program is dead: end the command that entered the host with it, which stopped when the program did."""
        if self._outer is not None:
            self._outer.kill()
            self._outer.wait(timeout=WITHIN)
            self._outer = None

    def _signal(self, signum: signal.Signals) -> None:
        assert self._outer is not None, "the shared folder is not mounted"
        for process in psutil.Process(self._outer.pid).children():
            process.send_signal(signum)
