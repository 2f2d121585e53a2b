"""The streams of a project, read again only when a file has changed: to read a thousand files takes seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.config.loading import STREAMS, THRESHOLDS
from streamwarden.errors import ConfigError
from streamwarden.health.thresholds import DEFAULTS, Thresholds

if TYPE_CHECKING:
    from streamwarden.config.loading import Catalog
    from streamwarden.services.workspace import Workspace

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

    def of(self, space: Workspace) -> Catalog:
        """The catalog of `space` as its files are now."""
        with self._lock:
            signature, now = _signature(space.project), self._clock()
            if self._catalog is None or signature != self._signature or now - self._read_at > AGAIN:
                self._catalog, self._thresholds = space.catalog(), _thresholds(space)
                self._signature, self._read_at = signature, now
            return self._catalog

    def thresholds(self, space: Workspace) -> Thresholds:
        """The thresholds of `space` as they were when its catalog was read; the defaults if their file is broken."""
        self.of(space)
        return self._thresholds


def _thresholds(space: Workspace) -> Thresholds:
    try:
        return space.thresholds()
    except ConfigError:  # the health DAG reports it
        return DEFAULTS


def _signature(project: Path) -> Signature:
    """Name, time and size of each file that declares streams or thresholds."""
    found = []
    for path in (*(project / STREAMS).iterdir(), project / THRESHOLDS):
        try:
            seen = path.stat()
        except OSError:  # it was just removed, or never there
            continue
        found.append((str(path), seen.st_mtime_ns, seen.st_size))
    return tuple(sorted(found))
