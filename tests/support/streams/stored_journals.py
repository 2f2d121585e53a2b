"""Journals of drills as earlier versions stored them: `tests/data/journals`.

`kill_driver` is a real drill, `kill_driver_begun` the same run after its step `fault`; `retention_passed` ran in the
simulated world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry

JOURNALS = Path(__file__).parents[2] / "data" / "journals"


def stored(name: str, **changes: Any) -> tuple[DrillRun, list[JournalEntry]]:
    """The run and its entries; `changes` replace fields of the run."""
    document = json.loads((JOURNALS / f"{name}.json").read_text())
    row: Mapping[str, Any] = {**document["run"], "status": DrillStatus(document["run"]["status"]), **changes}
    entries = [JournalEntry(**{**each, "step": DrillStep(each["step"])}) for each in document["entries"]]
    return DrillRun(**row), entries


def facts_with(name: str, **counts: Any) -> dict[str, Any]:
    """The facts of a stored run, with other numbers in its reconciliation."""
    facts = dict(stored(name)[0].facts)
    return {**facts, "reconciliation": {**facts["reconciliation"], **counts}}
