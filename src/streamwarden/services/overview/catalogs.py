"""The streams and drills of a project, read again only when a file has changed: a thousand files take seconds."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.config.loading import DRILLS, STREAMS, THRESHOLDS, Catalog, unknown
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds
from streamwarden.lifecycle.queries import identity, stream_parts
from streamwarden.services.fleet.undeclared import with_undeclared
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

FRESH: Final = 1.0
"""Seconds after which a request checks again whether a file has changed. With a thousand files and a busy thread beside
it, the check takes 0.1 s: Python's lock is released and acquired again at each file."""
AGAIN: Final = 60.0
"""Seconds after which the files are read again in any case: a job's file, or which of two streams keeps a place, may
have changed."""
SHARE: Final = 0.004
"""Share of a core that this takes at most: a thousand files, which take two seconds, are read every nine minutes."""

Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """Content of a project's files, their signature, and when they were read (seconds of the cache's clock).

    Args:
        thresholds: the defaults if their file is broken.
        drills: those with a correct file.
        cost: seconds of processor time that reading them took.
    """

    catalog: Catalog
    thresholds: Thresholds
    drills: Mapping[str, DrillSpec]
    signature: Signature
    read_at: float
    cost: float = 0.0


class CatalogCache:
    """The newest catalog, thresholds and drills of one project.

    Threads may share it. While one of them checks or reads the files, the others get the previous content.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_at = 0.0
        self._files: ProjectFiles | None = None

    def spec(self, space: Workspace, stream: str, query: str | None) -> StreamSpec:
        """A stream, or one of its queries. Raises ConfigError if there is none of this name, StoreError."""
        catalog = self.newest(space).catalog
        if stream not in catalog.streams:  # it may be new
            catalog = with_undeclared(self.newest(space, at_once=True).catalog, space.store, space.fleet)
        spec = catalog.get(stream)
        if not query:
            return spec
        parts = {part.spec.name: part.spec for part in stream_parts(spec, space.store.queries.of(stream), time.time())}
        name = identity(stream, query)
        if name not in parts:
            raise unknown("query", name, list(parts), f"`streamwarden status {stream}` lists them")
        return parts[name]

    def newest(self, space: Workspace, *, at_once: bool = False) -> ProjectFiles:
        """The content, at most `FRESH` seconds old; older while another thread reads a newer one.

        Args:
            at_once: also what was written since the last check.
        """
        files = self._files
        if files is not None and not at_once:
            if self._clock() - self._checked_at <= FRESH or not self._lock.acquire(blocking=False):
                return files
        else:
            self._lock.acquire()
        try:
            self._files = self._read(space)
            self._checked_at = self._clock()
            return self._files
        finally:
            self._lock.release()

    def _read(self, space: Workspace) -> ProjectFiles:
        """Read the files now. The caller holds the lock."""
        before, signature, now = self._files, _signature(space.project), self._clock()
        if (
            before is not None
            and signature == before.signature
            and now - before.read_at <= max(AGAIN, before.cost / SHARE)
        ):
            return before
        began = time.thread_time()
        read = space.catalog(), _thresholds(space), space.drills()
        return ProjectFiles(*read, signature, now, time.thread_time() - began)


def _thresholds(space: Workspace) -> Thresholds:
    try:
        return space.thresholds()
    except ConfigError:  # the health DAG reports it
        return DEFAULTS


def _signature(project: Path) -> Signature:
    """Name, time and size of each file that declares streams, drills or thresholds."""
    entries = []
    folders = (folder for folder in (project / STREAMS, project / DRILLS) if folder.is_dir())
    for path in (*(file for folder in folders for file in folder.iterdir()), project / THRESHOLDS):
        try:
            status = path.stat()
        except OSError:  # it was just removed, or never there
            continue
        entries.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(sorted(entries))
