"""sink_locked: another session holds the table that the sink writes to, so that a batch has to wait for it.

So does a migration, a `VACUUM FULL`, or a session that somebody left open in a transaction. A lock that lasts longer
than the driver's `lock_timeout` makes the writing of the batch fail, once for each time that it has passed.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from streamwarden.drills.faults.base import Description, ExpectedEnd, FaultContext, ObservedFault, Strike
from streamwarden.drills.faults.driver.kill_driver import FITTING
from streamwarden.drills.ports import HeldTable, Port
from streamwarden.drills.records.sections import require
from streamwarden.drills.records.types import ForkView
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_duration

LASTS: Final = 10.0
"""Seconds from the moment at which a batch waits until the table is free again, if the drill's file does not say."""

POLL: Final = 0.2


class SinkTable(Protocol):
    """The table that the fork's sink writes to. Raises DrillError if its database cannot be reached."""

    def hold(self, fork: ForkView) -> AbstractContextManager[HeldTable]:
        """Keep every other session from it. The database ends that with the drill's session."""


TABLE: Final = Port[SinkTable]("the sink's table")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLocked(ObservedFault):
    """Proof: a session of the driver waited for the table's lock, as the database reports it, and no batch was
    committed meanwhile. The recovery is measured from the moment at which the table is free.

    Each further attempt of the sink is a new session: their number shows how often writing the batch failed.
    """

    kind: str = "sink_locked"
    lasts: Seconds | None = None
    """how long a batch has to wait for the locked table; null: 10 s"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "a lock on the table that it writes to"
    proof: ClassVar[str] = (
        "A session of the driver waited for the lock (`pg_locks`), for that long, and no batch was committed meanwhile."
    )
    recovery: ClassVar[str] = "The batch that waited; if the driver gave up, it is started again, as supervision does."
    description: ClassVar[Description] = Description(
        does=f"Locks the fork's table (`LOCK TABLE … IN ACCESS EXCLUSIVE MODE`) until a batch has waited for it for "
        f"`fault.lasts`, {LASTS:.0f} s by default. With more than 30 s, the `lock_timeout`, each attempt to write "
        "the batch fails, until the table is free.",
        promise="The sink waits, and repeats a transaction that did not get the lock for as long as `sink.retry_for`. "
        "After that the driver fails, and a restart cures it.",
        seen="The batch waited and was then written once, by the same driver.",
        next_step="Find the session that holds the lock (`pg_locks`, `pg_stat_activity`) and end it. Nothing is lost.",
    )

    def __post_init__(self) -> None:
        ObservedFault.__post_init__(self)
        fits = self.lasts is None or 0 < self.lasts < self.within
        require(fits, "lasts", self.lasts, "a positive duration, shorter than `within`")

    @property
    def held_for(self) -> Seconds:
        """Seconds from the moment at which a batch waits."""
        return LASTS if self.lasts is None else self.lasts

    @property
    def variant(self) -> str:
        """How long, also if the file does not say it: a lock beyond the `lock_timeout` is another experiment."""
        return f"lasts: {format_duration(self.held_for)}"

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Only a database locks tables."""
        if declared.sink.SERVICE != "database":
            served = "service_outage" if declared.sink.SERVICE in FITTING else "kill_driver"
            instead = "sink_failing" if declared.sink.MANIFEST else served
            raise self.wrong_sink(
                stream, declared, "table", expected="a sink that writes to a database", instead=instead
            )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        lasts = self.held_for
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        with context.ports[TABLE].hold(context.fork) as table:
            before = context.ports.checkpoint.position(context.fork)
            waited_from, sessions = _watch(context, table, lasts, deadline)
            after = context.ports.checkpoint.position(context.fork)
            still_held = table.is_held()
        moment = context.ports.clock.now()
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

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        evidence = strike.evidence
        if not evidence["held"]:
            return False, f"{strike.message}, but the table was no longer locked at the end"
        if evidence["committed"] != evidence["committed_before"]:
            return False, f"{strike.message}, but batch {evidence['committed']} was committed meanwhile"
        if evidence["waited_seconds"] < evidence["wanted_seconds"]:
            return False, f"{strike.message}, and not for the {evidence['wanted_seconds']:.1f} s that it should have"
        attempts = len(evidence["sessions"])
        failed = "" if attempts == 1 else f"; writing it was tried in {attempts} sessions"
        return (
            True,
            f"{strike.message}: batch {evidence['planned']} was not committed before the table was free{failed}",
        )


def _watch(
    context: FaultContext, table: HeldTable, lasts: Seconds, deadline: float
) -> tuple[float | None, Sequence[int]]:
    """Wait until a session of the driver has waited for `lasts`, or time is up. Returns since when one waits, Unix
    seconds (None: none did), and all sessions that were seen to wait."""
    clock, sessions = context.ports.clock, set[int]()
    since: float | None = None

    def is_over() -> bool:
        nonlocal since
        waiting = table.waiting()
        sessions.update(waiting)
        since = clock.now() if since is None and waiting else since
        over = since is not None and clock.now() >= since + lasts
        return over or not context.observe().alive

    context.wait_until(is_over, deadline=deadline, every=POLL)
    return since, sorted(sessions)
