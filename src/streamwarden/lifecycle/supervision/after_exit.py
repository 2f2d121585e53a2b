"""Follow-up of a stream whose driver ended: restarted now, restarted later, or left for a person. Pure.

The supervisor acts on `supervisor.next_move`; this reads the same records and says the same to people, without acting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, decide
from streamwarden.lifecycle.supervision.restarter import GAVE_UP, Restarter, restarter
from streamwarden.lifecycle.supervision.stop import DesiredState
from streamwarden.lifecycle.supervision.supervisor import unforgiven
from streamwarden.stream.spec import RestartPolicy


class Next(StrEnum):
    """Kind of follow-up."""

    RESTARTS = "restarts"  # its supervisor launches it at `FollowUp.at`
    LEFT_DOWN = "left down"  # its supervisor gave up, or will: a person has to act
    PAUSED = "paused"  # nothing restarts it as long as its DAG is paused
    UNSUPERVISED = "unsupervised"  # nothing restarts it: it was started by hand
    UNKNOWN = "unknown"  # its DAG restarts it, if that is not paused


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """Follow-up of a stream that is down.

    Args:
        at: when it is launched, Unix seconds; None unless it restarts.
        reason: why; next_step: what a person should do, empty if nothing.
        attempt: failures in a row before that launch.
    """

    next: Next
    reason: str
    next_step: str = ""
    at: float | None = None
    attempt: int = 0


def follow_up(
    history: Sequence[DriverRecord],
    events: Mapping[str, Sequence[DriverEvent]],
    *,
    state: DesiredState | None,
    policy: RestartPolicy,
    paused: bool | None,
    now: float,
) -> FollowUp | None:
    """The follow-up after a stream's newest driver; None if that driver did not end, or there is none.

    Args:
        history: the stream's drivers of the last 24 hours, oldest first.
        events: driver id -> its events.
        paused: whether the stream's DAG is paused; None if that is unknown.
    """
    if not history or history[-1].exit is None:
        return None
    last = history[-1]
    own_events = events.get(last.driver_id, ())
    left = _gave_up(own_events, state)  # the DAG of a stream that was left down pauses itself: that is no cause
    if left is not None:
        return left
    by = restarter([event for event in own_events if event.kind != GAVE_UP], paused)
    if by in _NOBODY:
        return _NOBODY[by]
    decision = decide(unforgiven(history, state, lambda driver_id: events.get(driver_id, ())), policy, now)
    if isinstance(decision, GiveUp):
        return FollowUp(next=Next.LEFT_DOWN, reason=decision.reason, next_step=decision.next_step)
    if by is Restarter.UNKNOWN:
        return _UNKNOWN
    return FollowUp(
        next=Next.RESTARTS, reason=decision.reason, at=now + max(0.0, decision.after), attempt=decision.attempt
    )


def _gave_up(events: Sequence[DriverEvent], state: DesiredState | None) -> FollowUp | None:
    """The decision that was carried out, unless a person has started the stream since."""
    given_up = [event for event in events if event.kind == GAVE_UP]
    newest = max(given_up, key=lambda event: event.at, default=None)
    if newest is None or (state is not None and state.changed_at > newest.at):
        return None
    return FollowUp(next=Next.LEFT_DOWN, reason=newest.detail["reason"], next_step=newest.detail["next_step"])


_UNKNOWN: Final = FollowUp(
    next=Next.UNKNOWN,
    reason="its DAG restarts it unless it is paused, which is not known here",
    next_step="look at its DAG in Airflow",
)
_NOBODY: Final = {
    Restarter.PAUSED_DAG: FollowUp(
        next=Next.PAUSED,
        reason="nothing restarts it: its DAG is paused",
        next_step="unpause its DAG, or start the stream",
    ),
    Restarter.NOTHING: FollowUp(
        next=Next.UNSUPERVISED,
        reason="nothing restarts it: it was started by hand, without a supervisor",
        next_step="start the stream in Airflow, or run `streamwarden start --supervise`",
    ),
}
