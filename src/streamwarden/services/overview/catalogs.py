"""The streams and drills of a project, read again only when a file has changed: a thousand files take seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.config.loading import DRILLS, STREAMS, THRESHOLDS, unknown
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds
from streamwarden.lifecycle.queries import identity, stream_parts

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog
    from streamwarden.drills.spec import DrillSpec
    from streamwarden.services.workspace import Workspace
    from streamwarden.stream import StreamSpec

AGAIN: Final = 60.0
"""Seconds after which the files are read again in any case: a job's file, or which of two streams keeps a place, may
have changed."""

Signature = tuple[tuple[str, int, int], ...]


class CatalogCache:
    """The newest catalog and thresholds of one project. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._signature: Signature | None = None
        self._catalog: Catalog | None = None
        self._thresholds = DEFAULTS
        self._drills: Mapping[str, DrillSpec] = {}

    def of(self, space: Workspace) -> Catalog:
        """The catalog of `space` as its files are now."""
        with self._lock:
            signature, now = _signature(space.project), self._clock()
            if self._catalog is None or signature != self._signature or now - self._read_at > AGAIN:
                self._catalog, self._thresholds, self._drills = space.catalog(), _thresholds(space), space.drills()
                self._signature, self._read_at = signature, now
            return self._catalog

    def thresholds(self, space: Workspace) -> Thresholds:
        """The thresholds of `space` as they were when its catalog was read; the defaults if their file is broken."""
        self.of(space)
        return self._thresholds

    def drills(self, space: Workspace) -> Mapping[str, DrillSpec]:
        """The drills of `space` with a correct file, as they were when its catalog was read."""
        self.of(space)
        return self._drills

    def spec(self, space: Workspace, stream: str, query: str | None) -> StreamSpec:
        """A stream, or one of its queries. Raises ConfigError if there is none of this name, StoreError."""
        spec = self.of(space).get(stream)
        if not query:
            return spec
        parts = {each.spec.name: each.spec for each in stream_parts(spec, space.store.queries.of(stream), time.time())}
        name = identity(stream, query)
        if name not in parts:
            raise unknown("query", name, list(parts), f"`streamwarden status {stream}` lists them")
        return parts[name]


def _thresholds(space: Workspace) -> Thresholds:
    try:
        return space.thresholds()
    except ConfigError:  # the health DAG reports it
        return DEFAULTS


def _signature(project: Path) -> Signature:
    """Name, time and size of each file that declares streams, drills or thresholds."""
    found = []
    folders = (each for each in (project / STREAMS, project / DRILLS) if each.is_dir())
    for path in (*(file for folder in folders for file in folder.iterdir()), project / THRESHOLDS):
        try:
            seen = path.stat()
        except OSError:  # it was just removed, or never there
            continue
        found.append((str(path), seen.st_mtime_ns, seen.st_size))
    return tuple(sorted(found))
