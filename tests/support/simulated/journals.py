"""The journals of drills in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamwarden.drills.records.journal import DrillRun, JournalEntry
from streamwarden.errors import StoreError


class Journals:
    """A journal repository in memory that keeps everything, as JSON, as the store does."""

    def __init__(self) -> None:
        self.runs: dict[str, DrillRun] = {}
        self.lines: list[tuple[str, JournalEntry]] = []
        self.down = False
        self._facts: dict[str, dict[str, tuple[Any, Any]]] = {}

    def save(self, run: DrillRun) -> None:
        self._reach()
        before = self._facts.get(run.run_id, {})
        facts = self._facts[run.run_id] = {name: _copied(fact, before.get(name)) for name, fact in run.facts.items()}
        self.runs[run.run_id] = replace(run, facts={name: copy for name, (_, copy) in facts.items()})

    def append(self, run_id: str, entry: JournalEntry) -> None:
        self._reach()
        json.dumps(entry.data)
        self.lines.append((run_id, entry))

    def get(self, run_id: str) -> DrillRun | None:
        self._reach()
        return self.runs.get(run_id)

    def entries(self, run_id: str) -> Sequence[JournalEntry]:
        return [entry for owner, entry in self.lines if owner == run_id]

    def recent(self, drill: str | None = None, stream: str | None = None, limit: int = 50) -> Sequence[DrillRun]:
        return [run for run in self.runs.values() if drill in (None, run.drill) and stream in (None, run.stream)][
            :limit
        ]

    def running(self) -> Sequence[DrillRun]:
        self._reach()
        return [run for run in self.runs.values() if run.ended_at is None]

    def _reach(self) -> None:
        if self.down:
            raise StoreError("the store is down")


def _copied(fact: Any, before: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """The fact and its copy through JSON. A fact that a run saves again is the same object: no run changes one."""
    return before if before is not None and before[0] is fact else (fact, json.loads(json.dumps(fact)))
