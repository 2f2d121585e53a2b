"""Records what one run does: the only way in which state passes from step to step, which may be separate processes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamwarden.drills.ports import Clock, SpecCodec
from streamwarden.drills.records.codec import decode, decode_fields, encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry, JournalRepository
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import WRITERS, Halt, RunState, StepOutcome, StepRecord
from streamwarden.errors import DrillError
from streamwarden.stream.spec import StreamSpec


class RunRecorder:
    """The state of a run (the latest value of each field) and its entries (the history, which is only added to). Both
    are written through to the store at once: a step that is killed loses nothing that it had recorded.

    Raises DrillError if there is no such run.
    """

    def __init__(self, run_id: str, journals: JournalRepository, clock: Clock, specs: SpecCodec) -> None:
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
        self._specs = specs
        self.run = run
        self._state: RunState | None = None

    @property
    def state(self) -> RunState:
        if self._state is None:
            self._state = RunState.of(self.run)
        return self._state

    @property
    def spec(self) -> DrillSpec:
        return self.state.drill

    @property
    def fork(self) -> ForkView | None:
        """The fork with its spec. Raises ConfigError if this version cannot read the spec."""
        return self._view(self.run.facts.get("fork"))

    @property
    def live(self) -> ForkView | None:
        """The live stream with its spec, of a drill that breaks it. Raises ConfigError if it cannot be read."""
        return self._view(self.run.facts.get("live"))

    def require_live(self) -> ForkView:
        live = self.live
        if live is None:
            raise DrillError("no live stream was observed", where=self.run.run_id, next_step="run steady_state first")
        return live

    @property
    def remediated_fork(self) -> ForkView | None:
        """The fork as the remediation lets it continue; None: no remediation was needed so far."""
        return self._view((self.run.facts.get("remediation") or {}).get("fork"))

    def require_fork(self) -> ForkView:
        fork = self.fork
        if fork is None:
            raise DrillError("the run has no fork", where=self.run.run_id, next_step="run the step steady_state first")
        return fork

    def put(self, **changes: Any) -> None:
        """Set fields of the run's state and save the run."""
        stored, before = encode(changes, {**WRITERS, StreamSpec: self._specs.write}), self._state
        self.save(replace(self.run, facts={**self.run.facts, **stored}))
        if before is not None:
            self._state = replace(before, **decode_fields(RunState, stored))

    def next_fault(self) -> None:
        """Archive the current fault's result and move on to the next fault."""
        self.put(
            earlier=self.state.results,
            fault=None,
            strike=None,
            misses=(),
            refusal=None,
            remediation=None,
            predicted=(),
            recovery=None,
        )

    def drop_strikes(self) -> None:
        """The fault that landed last is the last one: those that have not landed are dropped."""
        *earlier, last = self.state.earlier
        plan, count = self.state.plan, len(self.state.earlier)
        self.put(
            plan=replace(plan, order=plan.order[:count], pauses=plan.pauses[:count], shares=plan.shares[:count]),
            earlier=tuple(earlier),
            fault=last.landed,
            strike=None,
            misses=last.misses,
            refusal=last.refusal,
            remediation=None,
            predicted=last.predicted,
            recovery=last.recovery,
        )

    def note(self, step: DrillStep, kind: str, message: str, /, **data: Any) -> None:
        """Add one entry to the journal; `data` is JSON."""
        at, plain = self._clock.now(), encode(data, WRITERS)
        self._journals.append(self.run.run_id, JournalEntry(step=step, at=at, kind=kind, message=message, data=plain))

    def halt(self, step: DrillStep, status: DrillStatus, reason: str) -> None:
        """End the experiment here; only healing and the report still run. The first halt counts."""
        if self.state.halt is None:
            self.put(halt=Halt(status=status, step=step, reason=reason))
        self.note(step, status.value, reason)

    def finish_step(self, step: DrillStep, outcome: StepOutcome, message: str) -> None:
        """Record that a step ended. A report that was written before is incomplete now: it counts as not written."""
        record = StepRecord(outcome=outcome, message=message, at=self._clock.now())
        steps = {**self.state.steps, step: record}
        steps.pop(DrillStep.REPORT, None)
        self.put(steps=steps)

    def save(self, run: DrillRun) -> None:
        self._journals.save(run)
        self.run, self._state = run, None

    def _view(self, document: Mapping[str, Any] | None) -> ForkView | None:
        if not document:
            return None
        view: ForkView = decode(ForkView, document, {StreamSpec: self._specs.read})
        return view
