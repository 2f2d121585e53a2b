"""input_gone: a file that a planned batch reads is removed before the batch is committed.

So does a clean-up that is faster than the stream. The driver is killed in mid-batch, and one file of that batch is
taken out of the fork's own input. Spark would list the files of the batch again and skip the one that is gone, without
an error: its rows would be missing. The stream must refuse to start until the file is back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, LiveUse, Proof, Strike
from streamwarden.drills.faults.driver.kill_driver import MidBatchKill
from streamwarden.drills.faults.input.own_input import INPUTS, require_files
from streamwarden.drills.ports import Ports
from streamwarden.drills.records.types import ForkView
from streamwarden.health.checks.driver.restart_loop import CHECK as RESTART_LOOP
from streamwarden.lifecycle.failures.causes import INPUT_FILE_GONE
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGone(MidBatchKill):
    """Proof: that of MidBatchKill, and a file of the batch that was cut is not in the fork's input."""

    kind: str = "input_gone"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.REFUSES
    event: ClassVar[str] = "the loss of a file that a batch was about to read"
    proof: ClassVar[str] = "That of `kill_driver`, and the file is not in the input."
    recovery: ClassVar[str] = "The stream must fail with an error that names the file; then the file is put back."
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="it takes away an input file of the stream")
    cause: ClassVar[Cause] = INPUT_FILE_GONE
    check: ClassVar[str] = RESTART_LOOP.name
    description: ClassVar[Description] = Description(
        does="Kills the driver in mid-batch, and takes one file of that batch out of the fork's own input.",
        promise="Spark alone runs the batch again without the file, and reports nothing. The driver of a job with "
        "build() therefore looks for the files of such a batch before it starts the query, and refuses if one is gone.",
        seen="Without that refusal the drill found the rows of the file missing in the output. With it the stream "
        "refused and named the file, and when the file was back, the output was right.",
        next_step=f"{INPUT_FILE_GONE.advice} Do not remove input files before the batch that reads them is committed.",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        require_files(self, stream, declared)

    def undo(self, context: FaultContext) -> str | None:
        return "the file is in the input again" if context.ports[INPUTS].put_back(context.fork) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        strike = MidBatchKill.strike(self, context, deadline=deadline)  # without super(): see KillAfterDatabaseCommit
        position = context.ports.checkpoint.position(context.fork)
        if strike.moment is None or position.planned is None or position.gap == 0:
            return strike
        files = context.ports[INPUTS].files_of(context.fork, position.planned)
        if files:
            context.ports[INPUTS].take_out(context.fork, files[0])
        return strike

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = MidBatchKill.prove(self, context, strike)
        gone = () if proof.planned is None else context.ports[INPUTS].missing(context.fork, proof.planned)
        if proof.landed:
            message = f"{', '.join(gone)} is not in the input" if gone else "every file of the batch is in the input"
            proof = replace(proof, message=f"{proof.message}; {message}")
        evidence = {**proof.evidence, "files_gone": list(gone)}
        return replace(proof, landed=proof.landed and bool(gone), evidence=evidence)

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """The check has to name the file."""
        reasons = [str(death["why"]) for death in evidence.get("died", ())]
        gone = [str(name).rpartition("/")[2] for name in proof.evidence["files_gone"]]
        missing = [name for name in gone if not any(name in reason for reason in reasons)]
        return f"it gives {reasons}, without the file {', '.join(missing)}" if missing else None

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """The file is put back."""
        ports[INPUTS].put_back(fork)
        return fork
