"""kill_executor: SIGKILL of one executor while a batch is running, between `offsets/N` and `commits/N`.

The driver must continue: Spark gives the lost tasks to another executor, which loads the state from the checkpoint, and
batch N commits. Nothing is started again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, LiveUse, ObservedFault, Strike
from streamwarden.drills.faults.driver.kill_driver import POLL, await_running_batch
from streamwarden.drills.ports import Port
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.stream.spec import StreamSpec

GONE_WITHIN = 10.0
"""Seconds from SIGKILL until the process must be gone; more means that it hangs in the kernel."""

SEARCH_EVERY = 0.1
"""Seconds between two searches for executors, each of which reads all processes of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorProcess:
    """An executor of a driver, as a process of this host. `id` is Spark's."""

    id: str
    process: ProcessIdentity


class Executors(Protocol):
    """The executors of the fork's drivers on this host."""

    def find(self, driver_id: str) -> Sequence[ExecutorProcess]:
        """The running executors of this driver and of no other."""

    def kill(self, executor: ExecutorProcess) -> bool:
        """Send SIGKILL. False: the process no longer existed. Raises DrillAborted if this user may not."""

    def is_alive(self, executor: ExecutorProcess) -> bool: ...


EXECUTORS: Final = Port[Executors]("the driver's executors")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillExecutor(ObservedFault):
    """Proof: an executor of this driver, named by pid and start time, ran before the strike and not after it, and when
    it was gone `offsets/N` was there and `commits/N` was not.

    Only the strike itself can observe that: batch N commits soon afterwards.
    """

    kind: str = "kill_executor"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.LIVES
    event: ClassVar[str] = "the loss of an executor in mid-batch"
    proof: ClassVar[str] = (
        "The process, by pid and start time, was alive before and not after; `commits/N` did not exist when "
        "it was gone."
    )
    recovery: ClassVar[str] = "Spark's own: the driver must survive."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="Spark replaces an executor by itself, and no file is changed",
    )
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to one executor of the driver while a batch runs.",
        promise="Spark gives the lost tasks to another executor, which loads the state from the checkpoint.",
        seen="The driver survived, the batch was committed, and the output was right.",
        next_step="Nothing. If the driver ends, look for the worker's and the driver's logs: `streamwarden logs NAME`.",
    )

    def require(self, stream: str, declared: StreamSpec) -> None:
        """In local mode the driver does the executors' work."""
        master = declared.spark.master
        if not manager_of(master).has_executors:
            raise self.not_applicable(
                stream,
                f"{stream} runs on the master {master}, which has no executors",
                expected="a cluster's master, such as spark://host:7077",
                next_step="drill this stream with `kill_driver`: its tasks run in the driver",
            )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        while (batch := await_running_batch(context, deadline=deadline)) is not None:
            executors = context.ports[EXECUTORS].find(context.driver_id)
            if executors:
                return self._kill(context, executors, batch)
            if not context.observe().alive:
                break
            context.ports.clock.sleep(SEARCH_EVERY)
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        if not context.ports[EXECUTORS].find(context.driver_id):
            raise DrillAborted(
                f"this host has no executor of the driver {context.driver_id}",
                expected="a worker on the host on which the drill runs, whose processes this user can see",
                where=f"the drill of {context.fork.origin}",
                next_step="run the drill on a host with a worker of the cluster",
            )
        return Strike(moment=None, message="no batch was caught between its plan and its commit")

    def _kill(self, context: FaultContext, executors: Sequence[ExecutorProcess], batch: int) -> Strike:
        struck = executors[0]
        moment = context.ports.clock.now()
        if not context.ports[EXECUTORS].kill(struck):
            return Strike(moment=None, message=f"executor {struck.id} was already gone", batch=batch)
        gone = context.wait_until(
            lambda: not context.ports[EXECUTORS].is_alive(struck), deadline=moment + GONE_WITHIN, every=POLL
        )
        # Read after the executor's end: what is absent now was absent then.
        position = context.ports.checkpoint.position(context.fork)
        return Strike(
            moment=moment,
            message=f"SIGKILL to executor {struck.id} (pid {struck.process.pid}) while batch {batch} was running",
            batch=batch,
            evidence={
                "executor": asdict(struck),
                "executors": len(executors),
                "gone": gone,
                "gone_at": context.ports.clock.now(),
                "planned": position.planned,
                "committed": position.committed,
                "offsets_written": context.ports.checkpoint.is_planned(context.fork, batch),
                "commits_written": context.ports.checkpoint.is_committed(context.fork, batch),
            },
        )

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        seen, batch = strike.evidence, strike.batch
        name = f"executor {seen['executor']['id']} (pid {seen['executor']['process']['pid']})"
        if not seen["gone"]:
            return False, f"{name} is still alive {GONE_WITHIN:.0f} s after SIGKILL"
        if seen["commits_written"] or not seen["offsets_written"]:
            return False, f"{name} died by SIGKILL, but batch {batch} was committed by then"
        return True, f"{name} died by SIGKILL with offsets/{batch} written and commits/{batch} absent"
