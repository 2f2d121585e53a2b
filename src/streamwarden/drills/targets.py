"""The steps of a drill, by its target."""

from collections.abc import Callable, Mapping
from typing import Final

from streamwarden.drills.live import approval, preflight
from streamwarden.drills.live import fault as live_fault
from streamwarden.drills.live import heal as live_heal
from streamwarden.drills.live import recovery as live_recovery
from streamwarden.drills.live import steady_state as live_steady_state
from streamwarden.drills.live import verification as live_verification
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fault import fault
from streamwarden.drills.steps.heal import heal
from streamwarden.drills.steps.recovery import recovery
from streamwarden.drills.steps.steady_state import steady_state
from streamwarden.drills.steps.verification import verification

Work = Callable[[StepContext], StepResult]

TARGETS: Final[Mapping[DrillTarget, Mapping[DrillStep, Work]]] = {
    DrillTarget.FORK: {
        DrillStep.STEADY_STATE: steady_state,
        DrillStep.FAULT: fault,
        DrillStep.RECOVERY: recovery,
        DrillStep.VERIFICATION: verification,
        DrillStep.HEAL: heal,
    },
    DrillTarget.PRODUCTION: {
        DrillStep.PREFLIGHT: preflight.preflight,
        DrillStep.APPROVAL: approval.approval,
        DrillStep.STEADY_STATE: live_steady_state.steady_state,
        DrillStep.FAULT: live_fault.fault,
        DrillStep.RECOVERY: live_recovery.recovery,
        DrillStep.VERIFICATION: live_verification.verification,
        DrillStep.HEAL: live_heal.heal,
    },
}
"""The report is the engine's own: it is the same for every target."""
