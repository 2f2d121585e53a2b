"""Audit the live stream over the batches before and after the fault, and let the judge give the verdict on it."""

from streamwarden.drills.records.audited import AuditRecord, gap_of
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.verification.comparing.balance import Outcome


def verification(context: StepContext) -> StepResult:
    """Balance the books. Books that cannot be balanced have no judge: the verdict is that nothing is proven."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    live, fault, recovery = recorder.require_live(), recorder.state.landed, recorder.state.recovery
    if recovery is None or recovery.first_commit_at is None:
        message = "not audited: no batch was committed after the fault"
        recorder.note(DrillStep.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    audited = ports.live.audit(live, fault.committed or 0)
    audit = AuditRecord.of(audited)
    recorder.put(audit=audit, not_exercised=tuple(ports.checkpoint.not_exercised(live)))
    recorder.note(DrillStep.VERIFICATION, "audited", audit.sentence, **audit.document)
    if audit.outcome is not Outcome.UNDECIDED:
        judgement = ports.judge.judge_audit(audited, spec.verification.min_records)
        recorder.put(judgement=judgement)
        recorder.note(DrillStep.VERIFICATION, "judged", judgement.on("books"), success=judgement.success)
    gap = gap_of(audit, fault.committed, recovery.first_new_batch, spec.verification.min_records)
    message = audit.sentence if gap is None else gap
    return StepResult(ok=gap is None and audit.outcome is Outcome.BALANCED, message=message)
