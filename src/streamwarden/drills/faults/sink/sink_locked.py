"""sink_locked: another session holds the table that the sink writes to, so that a batch has to wait for it.

So does a migration, a `VACUUM FULL`, or a session that somebody left open in a transaction. A lock that lasts longer
than the driver's `lock_timeout` makes the writing of the batch fail, once for each time that it has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from streamwarden.drills.faults.base import (
    Aftermath,
    Description,
    Fault,
    FaultContext,
    Proof,
    Strike,
    prove_as_observed,
)
from streamwarden.drills.faults.driver.kill_driver import FITTING
from streamwarden.drills.ports import HeldTable
from streamwarden.drills.records.sections import FaultKind, FaultSpec
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_duration

LASTS: Final = 10.0
"""Seconds from the moment at which a batch waits until the table is free again, if the drill's file does not say."""

POLL: Final = 0.2


@dataclass(frozen=True, slots=True)
class SinkLocked(Fault):
    """Proof: a session of the driver waited for the table's lock, as the database reports it, and no batch was
    committed meanwhile. The recovery is measured from the moment at which the table is free.

    Each further attempt of the sink is a new session: their number shows how often writing the batch failed.
    """

    aftermath: ClassVar[Aftermath] = Aftermath.MAY_END
    event: ClassVar[str] = "a lock on the table that it writes to"
    takes: ClassVar[tuple[str, ...]] = ("lasts",)
    description: ClassVar[Description] = Description(
        does=f"Locks the fork's table (`LOCK TABLE … IN ACCESS EXCLUSIVE MODE`) until a batch has waited for it for "
        f"`fault.lasts`, {LASTS:.0f} s by default. With more than 30 s, the `lock_timeout`, each attempt to write "
        "the batch fails, until the table is free.",
        promise="The sink waits, and repeats a transaction that did not get the lock for as long as `sink.retry_for`. "
        "After that the driver fails, and a restart cures it.",
        seen="The batch waited and was then written once, by the same driver.",
        next_step="Find the session that holds the lock (`pg_locks`, `pg_stat_activity`) and end it. Nothing is lost.",
    )

    def variant(self, fault: FaultSpec) -> str:
        """How long, also if the file does not say it: a lock beyond the `lock_timeout` is another experiment."""
        return f"lasts: {format_duration(_lasts(fault))}"

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """Only a database locks tables."""
        if declared.sink.SERVICE != "database":
            served = FaultKind.SERVICE_OUTAGE if declared.sink.SERVICE in FITTING else FaultKind.KILL_DRIVER
            instead = FaultKind.SINK_FAILING if declared.sink.MANIFEST else served
            raise DrillAborted(
                f"{fault.kind} is not applicable: the sink of {stream} is of the kind {declared.sink.kind}, which has "
                "no table",
                expected="a sink that writes to a database",
                where=f"the drill of {stream}",
                next_step=f"drill this stream with `{instead}`",
            )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        lasts = _lasts(context.spec)
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        with context.sink.hold(context.fork) as table:
            before = context.checkpoint.position(context.fork)
            waited_from, sessions = _watch(context, table, lasts, deadline)
            after = context.checkpoint.position(context.fork)
            still_held = table.is_held()
        moment = context.clock.now()
        if waited_from is None:
            return Strike(moment=None, message="the table was locked, but no session of the driver waited for it")
        return Strike(
            moment=moment,
            message=f"a batch waited for the locked table for {moment - waited_from:.1f} s",
            batch=after.planned,
            evidence={
                "planned": after.planned,
                "committed": after.committed,
                "committed_before": before.committed,
                "held": still_held,
                "sessions": sorted(sessions),
                "waited_seconds": moment - waited_from,
                "wanted_seconds": lasts,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        return prove_as_observed(context, strike, _judge)


def _lasts(fault: FaultSpec) -> Seconds:
    return LASTS if fault.lasts is None else fault.lasts


def _watch(
    context: FaultContext, table: HeldTable, lasts: Seconds, deadline: float
) -> tuple[float | None, Sequence[int]]:
    """Wait until a session of the driver has waited for `lasts`, or time is up. Returns since when one waits, Unix
    seconds (None: none did), and all sessions that were seen to wait."""
    clock, seen = context.clock, set[int]()
    since: float | None = None

    def probe() -> bool | None:
        nonlocal since
        waiting = table.waiting()
        seen.update(waiting)
        since = clock.now() if since is None and waiting else since
        over = since is not None and clock.now() >= since + lasts
        return True if over or not context.observe().alive else None

    wait_for(probe, clock=clock, deadline=deadline, every=POLL)
    return since, sorted(seen)


def _judge(strike: Strike) -> tuple[bool, str]:
    seen = strike.evidence
    if not seen["held"]:
        return False, f"{strike.message}, but the table was no longer locked at the end"
    if seen["committed"] != seen["committed_before"]:
        return False, f"{strike.message}, but batch {seen['committed']} was committed meanwhile"
    if seen["waited_seconds"] < seen["wanted_seconds"]:
        return False, f"{strike.message}, and not for the {seen['wanted_seconds']:.1f} s that it should have"
    attempts = len(seen["sessions"])
    failed = "" if attempts == 1 else f"; writing it was tried in {attempts} sessions"
    return True, f"{strike.message}: batch {seen['planned']} was not committed before the table was free{failed}"
