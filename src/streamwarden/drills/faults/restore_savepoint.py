"""restore_savepoint: the newest savepoint is opened as a fork, which executes the stream's own next batches again.

The stream wrote the rows of these batches without the savepoint. If the fork writes the same rows, the savepoint has
the state, the logs and the position that the stream had: nothing would be lost or doubled by a restore.

No driver is struck. The steps of this drill are in `drills.restored`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from streamwarden.drills.faults.base import Course, Description, ExpectedEnd, Fault, FaultContext, Proof, Strike
from streamwarden.drills.ports import Port, Ports
from streamwarden.drills.records.sections import VerificationSpec, require
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillAborted, DrillError
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointToProve:
    """The newest savepoint of the stream.

    Args:
        batch: whose end it holds; None: its manifest cannot be read, for the reason in `problem`.
        words: when and by whom it was taken, and its size.
    """

    id: str
    batch: int | None
    words: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The stream's batches, as the fork executed them again. Times are Unix seconds.

    Args:
        started_at: when Spark was launched.
        seconds: from then to the end of the last batch.
        failure: which batch could not be executed, and why; empty: each was.
    """

    started_at: float
    seconds: Seconds
    failure: str = ""


class Savepoints(Protocol):
    """The savepoints of a stream, and what its next batches make of one. Changes nothing of either."""

    def newest(self, stream: str) -> SavepointToProve:
        """Raises DrillAborted if the stream has none."""

    def broken_files(self, stream: str, savepoint: str) -> Sequence[str]:
        """Each file that is not as the manifest says, in words; reads all of them."""

    def batches(self, run_id: str, fork: ForkView, most: int) -> Sequence[int]:
        """The committed batches of the stream that follow the savepoint's, without a gap; keeps what they read. Empty:
        the stream keeps the next one no more, or has not committed it.

        Raises DrillAborted if the job has changed since the stream executed them.
        """

    def execute(self, run_id: str, fork: ForkView, batches: Sequence[int], *, within: Seconds) -> Replay:
        """Let the fork execute these batches of the stream. Raises VerificationError if Spark or the job does not
        start, or not in time."""

    def compare(
        self, run_id: str, fork: ForkView, batches: Sequence[int], verification: VerificationSpec
    ) -> TwinReport:
        """The rows of the fork against those that the stream itself wrote in these batches.

        Raises VerificationError if they cannot be compared, or there are none.
        """

    def release(self, run_id: str) -> None:
        """End Spark, and remove what `batches` kept. May run again, and for a run without either."""


SAVEPOINTS: Final = Port[Savepoints]("the savepoints of the stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSavepoint(Fault):
    """Proof: every file of the newest savepoint is as it was saved, and it was opened as a fork."""

    kind: str = "restore_savepoint"
    batches: int = 50
    """at most so many of the batches after the savepoint's are executed again; at least `steady_state.min_batches`"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.ENDS
    course: ClassVar[Course] = Course.RESTORED
    event: ClassVar[str] = "the restore of its newest savepoint"
    proof: ClassVar[str] = "Every file of the savepoint is as its manifest says, and it was opened as a fork."
    recovery: ClassVar[str] = "The first batch after the savepoint's that the fork commits."
    description: ClassVar[Description] = Description(
        does="Verifies every file of the newest savepoint, opens it as a fork, and executes the batches again that the "
        "stream committed after it, with the same input, watermarks and times.",
        promise="The fork writes the rows that the stream itself wrote in these batches.",
        seen="The rows were the same. A state file that was cut off, one that was missing, and one that was replaced "
        "together with its digest in the manifest were each found.",
        next_step="If the drill deviates, take another savepoint (`streamwarden savepoint create`) and run it again.",
    )

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        require(self.batches >= 1, "batches", self.batches, "at least 1")

    @property
    def variant(self) -> str:
        """How many batches are compared makes no other experiment."""
        return ""

    def require(self, stream: str, declared: StreamSpec) -> None:
        mode = declared.sink.mode
        if not declared.source.DECLARED or not declared.sink.DECLARED:
            raise self.not_applicable(
                stream,
                f"{stream} is a script, which opens its own checkpoint and its own output",
                expected="a job with build(spark, spec)",
                next_step="drill this stream with another fault, such as `kill_driver`",
            )
        if mode is not OutputMode.APPEND:
            raise self.not_applicable(
                stream,
                f"in the output mode {mode} a later batch replaces rows, so that those of a batch cannot be compared",
                expected="the output mode append",
                next_step="try the savepoint with `streamwarden savepoint fork`, and look at its state",
            )

    def release(self, run_id: str, ports: Ports) -> None:
        ports[SAVEPOINTS].release(run_id)

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        raise self._no_driver(context)

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        raise self._no_driver(context)

    def _no_driver(self, context: FaultContext) -> DrillError:
        return DrillError(
            f"{self.kind} strikes no driver", where=context.run_id, next_step="report this: it is a defect"
        )


def aborted(stream: str, observed: str, expected: str, next_step: str) -> DrillAborted:
    """The refusal of a savepoint that cannot be proven now."""
    return DrillAborted(
        f"the newest savepoint of {stream} cannot be proven: {observed}",
        expected=expected,
        where=f"the drill of {stream}",
        next_step=next_step,
    )
