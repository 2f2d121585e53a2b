"""The steps of a drill that opens the newest savepoint, in place of those that strike a driver.

    steady state    there is a savepoint
    fault           each of its files is as it was saved, and it is opened as a fork
    recovery        the fork executes the batches again that the stream committed after it; the savepoint is unharmed
    verification    the fork wrote the rows that the stream itself wrote in these batches

Each may be repeated. What a file of the savepoint lacks, and a batch that the fork cannot execute, are deviations: a
restore would meet them, too.
"""

from collections.abc import Sequence

from streamwarden.drills.faults.restore_savepoint import SAVEPOINTS, RestoreSavepoint, SavepointToProve, aborted
from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.twin import describe_run
from streamwarden.drills.state import LandedFault, Recovery, SteadyState
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.units import format_count


def steady_state(context: StepContext) -> StepResult:
    """There is a savepoint, of a stream whose batches can be compared."""
    recorder, ports = context.recorder, context.ports
    fault = context.fault
    fault.require(recorder.spec.stream, ports.forks.declared(recorder.spec.stream, fault.feed))
    newest = ports[SAVEPOINTS].newest(recorder.spec.stream)
    message = f"the newest savepoint is {newest.id}, {newest.words or newest.problem}"
    before = SteadyState(holds=True, message=message, committed=newest.batch, at=ports.clock.now())
    recorder.put(steady_before=before)
    recorder.note(DrillStep.STEADY_STATE, "steady_state", message, savepoint=newest.id)
    return StepResult(ok=True, message=message)


def fault(context: StepContext) -> StepResult:
    """Verify the newest savepoint, and open it as a fork."""
    recorder, ports = context.recorder, context.ports
    if recorder.state.fault is not None:
        return StepResult(ok=recorder.state.fault.violation is None, message=recorder.state.fault.message)
    stream, began = recorder.spec.stream, ports.clock.now()
    newest = ports[SAVEPOINTS].newest(stream)
    broken = [newest.problem] if newest.batch is None else _broken(context, newest.id)
    if broken:
        more = f", and {format_count(len(broken) - 1, 'more file')}" if len(broken) > 1 else ""
        violation = f"the savepoint {newest.id} is not as it was saved: {broken[0]}{more}"
        return _landed(context, newest, (), began, violation, violation)
    fork = recorder.fork or ports.forks.restored(recorder.run.run_id, stream, newest.id)
    recorder.put(fork=fork)
    batches = ports[SAVEPOINTS].batches(recorder.run.run_id, fork, _fault(context).batches)
    _require_enough(context, newest, batches)
    message = (
        f"every file of the savepoint {newest.id} is as it was saved, and it was opened as a fork after batch "
        f"{newest.batch}; the stream has committed the batches {batches[0]} to {batches[-1]} since"
    )
    return _landed(context, newest, batches, began, message, None)


def recovery(context: StepContext) -> StepResult:
    """Execute the stream's batches in the fork, and look at the savepoint again: its files may be links."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork, landed = recorder.require_fork(), recorder.state.landed
    batches = _batches(landed)
    done = ports[SAVEPOINTS].execute(recorder.run.run_id, fork, batches, within=spec.recovery.deadline)
    message = done.failure or f"it executed {format_count(len(batches), 'batch')} again in {done.seconds:.1f} s"
    at = ports.checkpoint.commit_time(fork, batches[0])
    back = Recovery(
        driver_id="",
        launched_at=done.started_at,
        first_new_batch=batches[0],
        first_commit_at=at,
        recovery_seconds=None if at is None else max(0.0, at - landed.moment),
        restart_seconds=None if at is None else max(0.0, at - done.started_at),
        completed=not done.failure,
        message=message,
    )
    after = _unharmed(context, str(landed.evidence["savepoint"]), landed.committed)
    recorder.put(recovery=back, steady_after=after)
    recorder.note(DrillStep.RECOVERY, "executed", message, **encode(back))
    in_time = back.recovery_seconds is not None and back.recovery_seconds <= spec.recovery.target
    return StepResult(ok=back.completed and in_time and after.holds, message=f"{message}; {after.message}")


def verification(context: StepContext) -> StepResult:
    """Compare the rows that the fork wrote with those of the stream."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork, back = recorder.require_fork(), recorder.state.recovery
    if back is None or not back.completed:
        message = "not verified: the fork could not execute each of the batches"
        recorder.note(DrillStep.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    batches = _batches(recorder.state.landed)
    twin = ports[SAVEPOINTS].compare(recorder.run.run_id, fork, batches, spec.verification)
    outcome, outside = twin.outcome, ports.forks.outside(recorder.run.run_id, fork.origin)
    judgement = ports.judge.judge(outcome, spec.verification.min_records)
    recorder.put(twin=twin, reconciliation=outcome, outside=outside, judgement=judgement)
    message = f"the fork {describe_run(twin)}; {twin.third}"
    recorder.note(DrillStep.VERIFICATION, "compared", message, **outcome.to_dict())
    enough = outcome.records >= spec.verification.min_records and outside.unprovable is None
    return StepResult(ok=outcome.exactly_once and judgement.success and enough, message=message)


def _fault(context: StepContext) -> RestoreSavepoint:
    fault = context.fault
    assert isinstance(fault, RestoreSavepoint)  # no other has this course
    return fault


def _broken(context: StepContext, savepoint: str) -> Sequence[str]:
    return context.ports[SAVEPOINTS].broken_files(context.recorder.spec.stream, savepoint)


def _unharmed(context: StepContext, savepoint: str, batch: int | None) -> SteadyState:
    broken = _broken(context, savepoint)
    message = f"the fork changed the savepoint: {broken[0]}" if broken else f"the savepoint {savepoint} is unchanged"
    return SteadyState(holds=not broken, message=message, committed=batch, at=context.ports.clock.now())


def _landed(
    context: StepContext,
    newest: SavepointToProve,
    batches: Sequence[int],
    moment: float,
    message: str,
    violation: str | None,
) -> StepResult:
    landed = LandedFault(
        kind=context.fault.kind,
        attempts=1,
        landed=True,
        driver_id="",
        moment=moment,
        planned=batches[-1] if batches else None,
        committed=newest.batch,
        message=message,
        evidence={"savepoint": newest.id, "batches": list(batches)},
        violation=violation,
    )
    context.recorder.put(fault=landed)
    context.recorder.note(DrillStep.FAULT, "landed", message, **encode(landed))
    return StepResult(ok=violation is None, message=message)


def _batches(landed: LandedFault) -> list[int]:
    return [int(batch) for batch in landed.evidence["batches"]]


def _require_enough(context: StepContext, newest: SavepointToProve, batches: Sequence[int]) -> None:
    stream, wanted = context.recorder.spec.stream, context.recorder.spec.steady_state.min_batches
    if len(batches) >= wanted:
        return
    raise aborted(
        stream,
        f"of the batches after {newest.batch}, which {newest.id} holds, the stream keeps "
        f"{format_count(len(batches), 'batch')} from {(newest.batch or 0) + 1} on, with whose rows a fork could be "
        "compared",
        f"at least {wanted}",
        f"run the drill soon after a savepoint: `streamwarden savepoint create {stream}`, and then when the stream has "
        f"committed {wanted} batches; spark.sql.streaming.minBatchesToRetain says how many it keeps",
    )
