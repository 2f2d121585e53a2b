"""The steps of a drill, one module each. A step reads and writes the run's state through the recorder and may be
repeated."""

from dataclasses import dataclass

from streamwarden.drills.faults import Fault
from streamwarden.drills.ports import Ports
from streamwarden.drills.recorder import RunRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """The context of a step.

    Args:
        park: end the fork's driver gracefully after the steady state, because the next step is another process and the
            bounded input must not run out until that process has started.
    """

    recorder: RunRecorder
    ports: Ports
    park: bool

    @property
    def fault(self) -> Fault:
        """The fault whose turn it is, as its options choose it."""
        return self.recorder.state.fault_spec.chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """`ok` False: the step halted the drill or found a deviation (its Airflow task fails)."""

    ok: bool
    message: str
