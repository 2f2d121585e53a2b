"""Where a simulated drill writes its journal and report, and the locks of its run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from streamwarden.errors import DrillError


class SimulatedArchive:
    """Implements `drills.ports.Archive`. `locked` is what a test turns: another process is at work on the run."""

    def __init__(self) -> None:
        self.locked = False

        self.documents: dict[str, Mapping[str, Any]] = {}
        self.summaries: dict[str, str] = {}
        self.held: set[str] = set()

    def write(self, run_id: str, document: Mapping[str, Any], summary: str) -> str:
        self.documents[run_id] = json.loads(json.dumps(document))
        self.summaries[run_id] = summary
        return f"/data/drills/{run_id}/journal.json"

    def lock(self, run_id: str) -> Self:
        if self.locked:
            raise DrillError("another process is at work on this run")
        return self

    @contextmanager
    def tenure(self, run_id: str) -> Iterator[bool]:
        if run_id in self.held:
            yield False
            return
        self.held.add(run_id)
        try:
            yield True
        finally:
            self.held.discard(run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def versions(self, stream: str) -> Mapping[str, str]:
        return {"streamwarden": "0.1.0"}
