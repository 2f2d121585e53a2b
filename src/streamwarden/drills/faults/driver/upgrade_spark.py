"""upgrade_spark: the driver stops at a batch boundary, and the one that follows runs on another version of Spark.

The twin executes the same batches on the stream's own Spark, so it shows whether the other version computes anything
else from the same checkpoint and the same input.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.drills.faults.base import Description, FaultContext, LiveUse, Proof, Strike
from streamwarden.drills.faults.driver.controlled_restart import ControlledRestart
from streamwarden.drills.ports import Port
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import StreamSpec


class DriverSpark(Protocol):
    """The Spark on which the drivers of a run's fork run: at first that of its stream."""

    def versions(self, spec: StreamSpec, python: str) -> tuple[str, str]:
        """The version of the stream's own Spark, and of the one beside this interpreter.

        Raises DrillAborted if the stream cannot run there, or if both are the same.
        """

    def choose(self, run_id: str, python: str) -> None:
        """Let the drivers that are started from now on run on the Spark of this interpreter. May run again."""

    def chosen(self, run_id: str) -> str | None:
        """That interpreter; None: the drivers run on the stream's own Spark."""


DRIVER_SPARK: Final = Port[DriverSpark]("the drivers' Spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSpark(ControlledRestart):
    """Proof: as for a controlled restart; the driver that follows is started on the other Spark."""

    kind: str = "upgrade_spark"
    python: str | None = None
    """the interpreter of the environment with the other Spark, as in [`spark.python`](stream.md); null: `streamwarden
    drill run --python` names it"""
    event: ClassVar[str] = "a restart on another version of Spark"
    proof: ClassVar[str] = "The driver stopped, no batch was cut, and the one that follows runs on the other Spark."
    recovery: ClassVar[str] = "The start on the other Spark."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=False, reason="a newer Spark may write the checkpoint in a form that the stream's own cannot read"
    )
    description: ClassVar[Description] = Description(
        does="Stops the driver at a batch boundary, and starts the fork again on the Spark of `fault.python`.",
        promise="A Spark reads the checkpoints of earlier versions and goes on after the last committed batch.",
        seen="From 3.5 to 4.3, from 4.1 to 4.3 and back from 4.1 to 3.5, the output of a windowed aggregation was that "
        "of the twin on the stream's own version.",
        next_step="Set `spark.python` in the stream's file. Keep a savepoint from before: an older Spark may refuse "
        "what a newer one wrote.",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        if self.python is None:
            raise self.not_applicable(
                stream,
                "no other Spark is named",
                expected="the interpreter of an environment with another PySpark",
                next_step="set `fault.python`, or run the drill with `streamwarden drill run DRILL --python PYTHON`",
            )
        if manager_of(declared.spark.master).has_executors:
            raise self.not_applicable(
                stream,
                f"the executors of {stream} run in its cluster, on the Spark that is installed there",
                expected="a stream with a local master",
                next_step="drill this stream with `controlled_restart`",
            )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        spark, python = context.ports[DRIVER_SPARK], str(self.python)
        spark.versions(context.fork.spec, python)  # before anything is stopped
        stopped = ControlledRestart.strike(self, context, deadline=deadline)
        exit = context.observe().exit
        if exit is not None and exit.kind is ExitKind.STOPPED:
            spark.choose(context.run_id, python)
        return stopped

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        proof = ControlledRestart.prove(self, context, strike)
        if context.ports[DRIVER_SPARK].chosen(context.run_id) is None:
            return replace(proof, landed=False, message=f"{proof.message}; the fork is still on its own Spark")
        before, after = context.ports[DRIVER_SPARK].versions(context.fork.spec, str(self.python))
        return replace(
            proof,
            message=f"{proof.message}; from Spark {before} to {after}",
            evidence={**proof.evidence, "spark_before": before, "spark_after": after},
        )
