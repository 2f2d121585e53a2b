"""Make the fork, start it, and check that the hypothesis holds before anything is broken."""

from collections.abc import Sequence
from dataclasses import asdict

from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.records.sections import OracleKind, SteadyStateSpec
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import SteadyState
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import await_commit, await_end, describe, note_exit, start_driver
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.units import format_count

HEALTH_GRACE = 15.0
"""Seconds that health may stay blind after the batches are there: reports reach the store a little later."""


def steady_state(context: StepContext) -> StepResult:
    """Make the fork, start it, judge the hypothesis; aborts the drill if it does not hold."""
    recorder, ports = context.recorder, context.ports
    spec = recorder.spec
    fork = recorder.fork or _make_fork(context, spec)
    _require_work(fork, spec)
    _shorten(context, fork, spec)
    for fault in spec.sequence:
        fault.chosen.require(fork.origin, fork.spec)
    record = ports.drivers.latest(fork) or start_driver(context, fork, DrillStep.STEADY_STATE)
    first = 0 if fork.batch is None else fork.batch + 1
    wanted = first + spec.steady_state.min_batches - 1
    deadline = record.launched_at + spec.steady_state.within
    late = await_commit(context, fork, record.driver_id, wanted, deadline=deadline)
    if late is not None:
        note_exit(context, DrillStep.STEADY_STATE, late)
        return never_reached(context, wanted, late)
    before = recorder.state.steady_before or observe_before(context, fork)
    if not before.holds:
        return abort(context, f"the steady state does not hold before the fault: {before.message}")
    if context.park:
        _park(context, fork, record)
    return StepResult(ok=True, message=f"batch {wanted} committed; {before.message}")


def observe_before(context: StepContext, fork: ForkView) -> SteadyState:
    """Observe the hypothesis before the fault, and record it."""
    before = observe_health(context, fork)
    context.recorder.put(steady_before=before)
    context.recorder.note(DrillStep.STEADY_STATE, "steady_state", before.message, holds=before.holds)
    return before


def observe_health(context: StepContext, fork: ForkView) -> SteadyState:
    """The hypothesis judged by health now; while health is blind, it is evaluated again for a short time."""
    ports, spec, observed = context.ports, context.recorder.spec.steady_state, list[SteadyState]()

    def probe() -> bool | None:
        verdicts = ports.health.evaluate(fork, spec.checks)
        holds, message = judge_health(spec, verdicts)
        observed[:] = [
            SteadyState(
                holds=holds is True,
                message=message,
                committed=ports.checkpoint.position(fork).committed,
                at=ports.clock.now(),
                verdicts=tuple(map(asdict, verdicts)),
            )
        ]
        return holds

    wait_for(probe, clock=ports.clock, deadline=ports.clock.now() + HEALTH_GRACE, every=0.5)
    return observed[0]


def judge_health(spec: SteadyStateSpec, verdicts: Sequence[Verdict]) -> tuple[bool | None, str]:
    """Whether each of the named checks ran, none is CRITICAL and at least one has data (UNKNOWN is never OK); and why.
    None: they have too little data to confirm or to refute it."""
    absent = sorted(set(spec.checks) - {verdict.check for verdict in verdicts})
    critical = [verdict for verdict in verdicts if verdict.status is Status.CRITICAL]
    unknown = [verdict.check for verdict in verdicts if verdict.status is Status.UNKNOWN]
    if critical:
        return False, "; ".join(f"{verdict.check} is CRITICAL: {verdict.reason}" for verdict in critical)
    if absent:
        return None, f"checks without a verdict: {', '.join(absent)}"
    if spec.checks and len(unknown) == len(verdicts):
        return None, "health is blind: every check is UNKNOWN"
    return True, f"{len(verdicts)} checks, none CRITICAL" + (f"; UNKNOWN: {', '.join(unknown)}" if unknown else "")


def _make_fork(context: StepContext, spec: DrillSpec) -> ForkView:
    """Refuse a drill that cannot work before anything is made."""
    feed = context.fault.feed
    forks = context.ports.forks
    for fault in spec.sequence:
        fault.chosen.require(spec.stream, forks.declared(spec.stream, feed))
    oracles = forks.oracles(spec.stream, feed, spec.verification.oracle)
    if any(fault.drops_copies for fault in spec.sequence) and OracleKind.JOB not in oracles:
        raise DrillAborted(
            "what the stream writes without the copy of a file is unknown: no oracle of the job judges it",
            expected="a job with its own oracle if `deduplicates` is true",
            where=f"drill {spec.name}, stream {spec.stream}",
            next_step="write an oracle for the job, or leave out `deduplicates`",
        )
    for fault in spec.sequence:
        fault.require_host(context.ports)
    fork = forks.make(context.recorder.run.run_id, spec.stream, spec.fork, feed, oracles)
    for fault in spec.sequence:
        fault.prepare(context.recorder.run.run_id, context.ports)
    context.recorder.put(fork=fork)
    start = "from the beginning" if fork.batch is None else f"after batch {fork.batch}"
    context.recorder.note(
        DrillStep.STEADY_STATE,
        "forked",
        f"{fork.stream} was made from {fork.origin}; it starts {start} and has {fork.work} to read{fork.own_topic}",
        batch=fork.batch,
        unseen=fork.unseen,
        what=fork.what,
        batches_left=fork.batches_left,
        input_digest=fork.input_digest,
    )
    return fork


def _require_work(fork: ForkView, spec: DrillSpec) -> None:
    if fork.batches_left is not None and fork.batches_left < spec.batches_needed:
        raise DrillAborted(
            f"the fork has {format_count(fork.batches_left, 'batch')} left to do ({fork.work})",
            expected=f"at least {spec.batches_needed}, so that something is left to break and to recover",
            where=f"drill {spec.name}, stream {fork.origin}",
            next_step="rewind further (`fork.rewind: all`), make smaller batches (`fork.batches`), or wait for input",
        )


def _shorten(context: StepContext, fork: ForkView, spec: DrillSpec) -> None:
    """Leave out the strikes for which the fork has too few batches."""
    plan = context.recorder.state.plan
    strikes = spec.strikes_in(fork.batches_left)
    if strikes < len(plan.order):
        context.recorder.put(plan=plan.shortened(strikes))
        left = f"{format_count(strikes, 'strike')} in place of {len(plan.order)}: the fork has too few batches for more"
        context.recorder.note(DrillStep.STEADY_STATE, "shortened", left)


def _park(context: StepContext, fork: ForkView, record: DriverRecord) -> None:
    """Stop the driver, so that its bounded input does not run out until the next step's process has started."""
    ports = context.ports
    if ports.drivers.observe(record.driver_id).exit is None:
        reason = "parked between two steps of a drill"
        by = f"drill:{context.recorder.run.run_id}"
        ports.drivers.request_stop(fork, record.driver_id, by=by, reason=reason)
    deadline = ports.clock.now() + context.fault.within
    view = await_end(context, fork, record.driver_id, deadline=deadline)
    note_exit(context, DrillStep.STEADY_STATE, view)
    if view.exit is None:
        raise DrillAborted(
            "the fork's driver did not stop between two steps",
            expected="a stop at the next batch boundary",
            where=f"driver {record.driver_id}",
            next_step=f"read its log in {record.folder}",
        )


def never_reached(context: StepContext, batch: int, driver: DriverView) -> StepResult:
    """Abort because the batch was not committed."""
    reason = f"the steady state was never reached: batch {batch} was not committed within its time"
    return abort(context, f"{reason}; {describe(driver)}")


def abort(context: StepContext, reason: str) -> StepResult:
    """Halt the drill before anything is broken."""
    context.recorder.halt(DrillStep.STEADY_STATE, DrillStatus.ABORTED, reason)
    return StepResult(ok=False, message=reason)
