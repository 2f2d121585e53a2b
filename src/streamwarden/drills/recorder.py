"""What one run knows: the only way in which state passes from step to step, which may be separate processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamwarden.drills.journal import DrillRun, DrillStatus, DrillStep, JournalEntry, JournalRepository
from streamwarden.drills.ports import Clock, ForkView
from streamwarden.drills.spec import DrillSpec, drill_from_dict
from streamwarden.errors import DrillError


class RunRecorder:
    """The facts of a run (the latest word, replaced) and its entries (the history, only added to), written through to
    the store at once: a step that is killed loses nothing that it had noted."""

    def __init__(self, run_id: str, journals: JournalRepository, clock: Clock) -> None:
        run = journals.get(run_id)
        if run is None:
            raise DrillError(
                f"there is no drill run {run_id!r}",
                expected="the id of a run that was begun",
                where="drill journal",
                next_step="list the runs with `streamwarden drill list`",
            )
        self._journals = journals
        self._clock = clock
        self.run = run

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.run.facts

    @property
    def spec(self) -> DrillSpec:
        """The drill as it was when the run began: a YAML file edited in between changes nothing."""
        return drill_from_dict(self.run.facts["drill"])

    @property
    def fork(self) -> ForkView | None:
        raw = self.run.facts.get("fork")
        return ForkView.from_dict(raw) if raw else None

    def require_fork(self) -> ForkView:
        fork = self.fork
        if fork is None:
            raise DrillError("the run has no fork", where=self.run.run_id, next_step="run the step steady_state first")
        return fork

    def put(self, **facts: Any) -> None:
        """Set facts (JSON values) and save the run."""
        self.save(replace(self.run, facts={**self.run.facts, **_as_json(facts)}))

    def note(self, step: DrillStep, kind: str, message: str, /, **data: Any) -> None:
        """Add one entry to the journal; `data` is JSON."""
        self._journals.append(
            self.run.run_id,
            JournalEntry(step=step, at=self._clock.now(), kind=kind, message=message, data=_as_json(data)),
        )

    def halt(self, step: DrillStep, status: DrillStatus, reason: str) -> None:
        """End the experiment here; only healing and the report still run. The first halt counts."""
        if "halted" not in self.run.facts:
            self.put(halted={"status": status.value, "step": step.value, "reason": reason})
        self.note(step, status.value, reason)

    def finish_step(self, step: DrillStep, outcome: str, message: str) -> None:
        """Record that a step is over: `passed`, `failed` (it halted the drill or found a deviation) or `skipped`.

        A report that was written before says no longer all: it counts as not written.
        """
        done = {"outcome": outcome, "message": message, "at": self._clock.now()}
        steps = {**self.run.facts.get("steps", {}), step.value: done}
        steps.pop(DrillStep.REPORT.value, None)
        self.put(steps=steps)

    def save(self, run: DrillRun) -> None:
        self._journals.save(run)
        self.run = run


def _as_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """What another process will read back: tuples become lists, enums their values, anything else text."""
    return dict(json.loads(json.dumps(data, default=str)))
