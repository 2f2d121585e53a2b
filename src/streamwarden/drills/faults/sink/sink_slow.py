"""sink_slow: between the sink's data files and its manifest a batch takes some seconds longer, for a number of batches.

A full file server does so. The driver is paused (SIGSTOP) as soon as a data file of the batch is whole and the
manifest has no entry of it, and continues after that time. Everything else that the driver does is late by the same
seconds: renewals of its lease, progress, metrics.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, LiveUse, ObservedFault, Strike
from streamwarden.drills.faults.driver.kill_driver import KillMoment, stop_at
from streamwarden.drills.faults.sink.sink_failing import MOST_TIMES
from streamwarden.drills.records.sections import require
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_duration

LASTS: Final = 5.0
"""Seconds for which a batch is held up, if the drill's file does not say."""

LONGEST: Final = 15.0
"""Seconds. A driver renews its lease every 5 s, and another one may take over after 30 s without. Its supervisor
process kills it if it is paused for `restart.unresponsive_after`, which is 20 s at least."""

POLL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSlow(ObservedFault):
    """Proof: of each of `times` batches, the manifest's entry was written at least `lasts` after the first data file,
    by the times of the files. The recovery is measured from the moment at which the last of them continued."""

    kind: str = "sink_slow"
    lasts: Seconds | None = None
    """how long a batch is held up before the sink's manifest; null: 5 s"""
    times: int | None = None
    """how many batches are held up; null: 1"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.LIVES
    event: ClassVar[str] = "a slow folder for its output"
    proof: ClassVar[str] = "Each of the batches was committed, and the times of its files are that far apart."
    recovery: ClassVar[str] = "The last of these batches; the driver must survive."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="the driver stands still for some seconds and goes on, and no file is changed",
    )
    description: ClassVar[Description] = Description(
        does="Lets the driver stand still (SIGSTOP) when a data file of a batch is whole and the manifest has no entry "
        f"of it, for `fault.lasts`, {format_duration(LASTS)} by default; in `fault.times` batches, 1 by default.",
        promise="A batch ends when its output is written, however long that takes. The next one has more to read.",
        seen="The same driver committed each of the batches when it went on, and the output was right.",
        next_step="Nothing, if the stream keeps up with its input. Otherwise look at the storage of the output: the "
        "phase `addBatch` of a batch contains its writes.",
    )

    def __post_init__(self) -> None:
        """The fault `freeze_driver` is for longer times."""
        ObservedFault.__post_init__(self)
        fits = self.lasts is None or 0 < self.lasts < self.within
        require(fits, "lasts", self.lasts, "a positive duration, shorter than `within`")
        allowed = f"{format_duration(LONGEST)} at most: a driver that stands still for longer is replaced"
        require(self.held_for <= LONGEST, "lasts", self.lasts, allowed)
        require(1 <= self.count <= MOST_TIMES, "times", self.times, f"from 1 to {MOST_TIMES}")

    @property
    def held_for(self) -> Seconds:
        """Seconds for which each batch is held up."""
        return LASTS if self.lasts is None else self.lasts

    @property
    def count(self) -> int:
        """Number of batches held up."""
        return 1 if self.times is None else self.times

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Only Spark's own file sink has a manifest. A database that is slow to write is one with a locked table."""
        if not declared.sink.MANIFEST:
            instead = "sink_locked" if declared.sink.SERVICE == "database" else "kill_driver"
            raise self.wrong_sink(stream, declared, "manifest", expected="a sink that writes files", instead=instead)

    def undo(self, context: FaultContext) -> str | None:
        return "the driver stood still and goes on" if context.ports.drivers.thaw(context.driver_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        slow: list[dict[str, Any]] = []
        moment = position = None
        while len(slow) < self.count:
            batch = stop_at(self, context, KillMoment.AFTER_FILES, deadline=deadline)
            if batch is None:
                break
            position = context.ports.checkpoint.position(context.fork)
            moment = _hold_up(context, self.held_for)
            traces = _await_commit(context, batch, deadline)
            slow.append({"batch": batch, **asdict(traces)})
        if moment is None or position is None:
            return Strike(moment=None, message="no batch was caught between its data files and its manifest")
        return Strike(
            moment=moment,
            message=f"{len(slow)} of {self.count} batches were held up before the manifest",
            batch=slow[-1]["batch"],
            evidence={
                "planned": position.planned,
                "committed": position.committed,
                "slow": slow,
                "times": self.count,
                "lasts": self.held_for,
            },
        )

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        if len(evidence["slow"]) < evidence["times"]:
            return False, strike.message
        for batch in evidence["slow"]:
            if not batch["committed"]:
                return False, f"{strike.message}, but batch {batch['batch']} was not committed"
            if (took := _held_up(batch)) is None or took < evidence["lasts"]:
                return False, f"{strike.message}, but the files of batch {batch['batch']} do not show it"
        longest = max(_held_up(batch) or 0.0 for batch in evidence["slow"])
        batches = ("batch " if evidence["times"] == 1 else "batches ") + ", ".join(
            str(batch["batch"]) for batch in evidence["slow"]
        )
        return True, f"the output of {batches} was slow: up to {longest:.1f} s from data file to manifest"


def _hold_up(context: FaultContext, lasts: Seconds) -> float:
    """Keep the driver paused for the whole time; returns when it continued, Unix seconds."""
    try:
        context.ports.clock.sleep(lasts)
    finally:
        context.ports.drivers.thaw(context.driver_id)
    return context.ports.clock.now()


def _await_commit(context: FaultContext, batch: int, deadline: float) -> BatchTraces:
    """The files of the batch when it is committed, the driver ends, or time is up."""
    context.wait_until(
        lambda: context.ports.checkpoint.is_committed(context.fork, batch) or not context.observe().alive,
        deadline=deadline,
        every=POLL,
    )
    return context.ports.checkpoint.traces(context.fork, batch)


def _held_up(traces: dict[str, Any]) -> Seconds | None:
    """Seconds from the first data file of a batch to its manifest entry; None: one of them is not there."""
    files, listed = traces["files_at"], traces["listed_at"]
    return None if files is None or listed is None else listed - files
