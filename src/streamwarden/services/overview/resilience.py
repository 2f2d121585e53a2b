"""The rows of the resilience matrix, as the API has them. Times are Unix seconds."""

from pydantic import Field

from streamwarden.drills.reporting.resilience import ErrorOfFormula, Resilience
from streamwarden.services.overview.models import Model, derived


class TrialRow(Model):
    """One fault of one run of a drill."""

    run_id: str
    drill: str
    at: float
    """when the run began"""
    verdict: str
    """PASSED, DEVIATED, ABORTED or FAILED"""
    recovery_seconds: float | None = Field(validation_alias="recovery")
    """from the fault to the first new commit; None: it was not observed"""


@derived(ErrorOfFormula)
class FormulaError(Model):
    """Error of a formula against the measured recoveries: 0.25 means that it predicted a quarter too much."""


@derived(Resilience)
class ResilienceRow(Model):
    """Resilience of one stream to one variant of a fault."""

    variant: str
    """the options that make it another experiment, such as `moment: after_state`; empty if there are none"""
    verdict: str
    """of the newest run that ended; NEVER if there is none"""
    survived_at: float | None
    """when the newest run began that passed"""
    errors: tuple[FormulaError, ...]
    trials: tuple[TrialRow, ...] = Field(validation_alias="recent")
    """the newest runs that ended, at most 50, newest first"""
