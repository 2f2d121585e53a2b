"""Records what the Python code of a fork's or a twin's job does outside of the drill's folder.

A drill compares what Spark writes. What a job keeps elsewhere is shared by the fork, its twins and perhaps the stream
itself, so that a loss that it causes would be in all of them. An audit hook of Python sees files that are opened for
writing, renamed or removed, connections, and programs that are started, each with the code that does it. What Python's
workers and libraries in C do, it does not see: `connections` samples what they are connected to, and the drill lists
the files around it before and after.
"""

import contextlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import streamwarden
from streamwarden.drills.records.outside import Trace
from streamwarden.lifecycle.driver_folder import OUTSIDE
from streamwarden.lifecycle.forks.places import SUFFIX
from streamwarden.services.forks.working_folder import WORK
from streamwarden.spark.driver.connections import watch_connections
from streamwarden.spark.internals.hooks import SPARKS_CODE
from streamwarden.stream.spec import StreamSpec

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PATH_OF: Final[Mapping[str, int]] = {
    **dict.fromkeys(("os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "sqlite3.connect"), 0),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), 1),
}
"""Audit events that change a file -> which of their arguments is its path."""

_PROGRAMS: Final = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})

_SPARKS: Final = (*SPARKS_CODE, f"{Path(streamwarden.__file__).parent}{os.sep}")
"""The folders of packages whose files and connections are not the job's."""


@dataclass(frozen=True, slots=True)
class JobCode:
    """The code of a job: the modules beside it and in its project, without installed packages.

    Args:
        roots: the folders.
    """

    roots: tuple[str, ...]

    def acts(self, frame: FrameType | None) -> bool:
        """Whether the job's code runs in this frame or above it, and nothing of Spark or of Python's temporary files
        between."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file == tempfile.__file__ or file.startswith(_SPARKS):
                return False
            if file.startswith(self.roots) and f"-packages{os.sep}" not in file:
                return True
            frame = frame.f_back
        return False


def trace_of(event: str, args: tuple[Any, ...]) -> tuple[Trace, str] | None:
    """(kind, what) of an audit event that may change something; None for any other. Pure."""
    if event == "open":
        path, _, flags = args
        return (Trace.FILE, os.fsdecode(path)) if isinstance(path, str | bytes) and flags & _WRITES else None
    if event in _PATH_OF:
        path = args[_PATH_OF[event]]
        return (Trace.FILE, os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else None
    if event == "socket.connect":
        address = args[1]
        return (
            (Trace.SERVER, f"{address[0]}:{address[1]}") if isinstance(address, tuple) else (Trace.SERVER, str(address))
        )
    return (Trace.PROGRAM, str(args[0])) if event in _PROGRAMS else None


def outside_of(path: str, folder: Path) -> str | None:
    """Where a path leads, if that is outside of the folder; None for one inside, a device, and Python's own cache."""
    real = os.path.realpath(path)
    device = real.startswith(("/dev/", "/proc/")) and not real.startswith("/dev/shm/")  # noqa: S108  # files in memory
    if device or path == ":memory:" or real.startswith(f"{os.path.realpath(folder)}/"):
        return None
    return None if f"{os.sep}__pycache__{os.sep}" in real else real


def watch_outside(spec: StreamSpec) -> None:
    """From now on, record what the job does outside of its drill's folder; nothing in a process that is no fork's."""
    work = Path(spec.data) if spec.data else None
    if SUFFIX not in spec.name or work is None or work.name != WORK:
        return
    run, here, seen = work.parent, threading.local(), set[tuple[str, str]]()
    roots = {str(Path(spec.job).parent), spec.project} - {""}
    code = JobCode(tuple(f"{root.rstrip('/')}/" for root in roots))
    _record(run, Trace.WATCHED, spec.name)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if getattr(here, "busy", False):
            return
        here.busy = True
        try:
            trace = trace_of(event, args)
            if trace is None or not code.acts(sys._getframe(1)):
                return
            kind, what = trace
            shown = outside_of(what, run) if kind == Trace.FILE else what
            if shown is not None and (kind, shown) not in seen:
                seen.add((kind, shown))
                _record(run, kind, shown)
        except Exception as error:  # the job must not fail because it is watched
            with contextlib.suppress(OSError):
                _record(run, Trace.MISSED, f"{event}: {error}")
        finally:
            here.busy = False

    sys.addaudithook(hook)
    watch_connections(spec, lambda server: _record(run, Trace.SERVER, server))


def _record(run: Path, kind: Trace, what: str) -> None:
    with (run / OUTSIDE).open("a", encoding="utf-8") as record:
        record.write(json.dumps({"kind": kind, "what": what}) + "\n")
