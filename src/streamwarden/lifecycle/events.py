"""The history of a stream as events: launches, crashes, restarts and stops, each with who and why. Pure.

A crash is an event even if the restart cures it. The events are derived from the records that the store has anyway.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.exchanges.exchange import RESTORED, REWRITTEN
from streamwarden.lifecycle.launch_check import BEGAN_ANEW
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.restarter import GAVE_UP

STOP_REQUESTED: Final = "stop_requested"
REATTACHED: Final = "reattached"
UI_SERVED: Final = "ui_served"
"""Kinds of driver events; the last has the `url` of Spark's UI."""

_UNRECORDED: Final = "the driver vanished without a recorded exit"


def ui_address(events: Iterable[DriverEvent]) -> str | None:
    """Where the driver serves Spark's UI, on the host that it runs on; None if it serves none."""
    urls = [event.detail.get("url", "") for event in events if event.kind == UI_SERVED]
    return urls[-1] if urls and urls[-1].startswith(("http://", "https://")) else None


class EventKind(StrEnum):
    LAUNCHED = "launched"  # the first launch, or one after a stop
    RESTORED = "restored"  # a person put the stream back to a savepoint
    REWRITTEN = "state rewritten"  # a person changed the files or the content of its state
    BEGAN_ANEW = "began anew"  # a person let it begin although checkpoint, store and output contradicted each other
    CRASHED = "crashed"  # the driver failed, was killed or vanished, and no stop was requested
    RESTARTED = "restarted"  # the launch after a crash, or the one of a requested restart
    STOP_REQUESTED = "stop requested"
    STOPPED = "stopped"  # the driver ended as requested, by force if it had to be
    COMPLETED = "completed"  # the query read all its input
    FENCED = "fenced"  # another driver took over the lease
    LEFT_DOWN = "left down"  # the supervisor gave up
    DEPLOYED = "deployed"  # the launch had other code or another configuration; made from what the launches kept
    DRILLED = "drilled"  # a drill of the stream ended; its event is made from the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One event; `at` is in Unix seconds.

    Args:
        who: the person or program that did it; empty if no one did.
        why: the reason that was given, or the cause that was found.
        next_step: what a person should do; empty if nothing.
        after: seconds since the crash, for the restart that followed it.
        cures: the launch followed a crash; that of a restart which a person asked for does not.
    """

    at: float
    kind: EventKind
    stream: str
    driver_id: str = ""
    who: str = ""
    why: str = ""
    next_step: str = ""
    after: float | None = None
    cures: bool = False


def stream_events(
    drivers: Iterable[DriverRecord], events: Mapping[str, Sequence[DriverEvent]]
) -> tuple[StreamEvent, ...]:
    """The events of one stream, oldest first.

    Args:
        drivers: the stream's drivers, in any order.
        events: driver id -> what was recorded of the driver.
    """
    ordered = sorted(drivers, key=lambda driver: (driver.launched_at, driver.token))
    history: list[StreamEvent] = []
    before: DriverRecord | None = None
    for index, driver in enumerate(ordered):
        own_events = events.get(driver.driver_id, ())
        asked = [event for event in own_events if event.kind == STOP_REQUESTED]
        history.append(_launch(driver, before, events))
        history += [_requested(driver, event) for event in asked]
        replaced_at = ordered[index + 1].launched_at if index + 1 < len(ordered) else None
        history += _end(driver, asked, replaced_at)
        history += [_left_down(driver, event) for event in own_events if event.kind == GAVE_UP]
        history += [_done_by(driver, event) for event in own_events if event.kind in _BY_PEOPLE]
        before = driver
    return tuple(sorted(history, key=lambda event: event.at))


def last_crash(events: Iterable[StreamEvent]) -> tuple[StreamEvent, StreamEvent | None] | None:
    """The newest crash and the restart that followed it, if one did; None if there was no crash."""
    ordered = sorted(events, key=lambda event: event.at)
    crash = next((event for event in reversed(ordered) if event.kind is EventKind.CRASHED), None)
    if crash is None:
        return None
    later = (event for event in ordered if event.at >= crash.at and event.cures)
    return crash, next(later, None)


def _launch(
    driver: DriverRecord, before: DriverRecord | None, events: Mapping[str, Sequence[DriverEvent]]
) -> StreamEvent:
    kind, why, after, cures = EventKind.LAUNCHED, "", None, False
    if before is not None:
        own_events = events.get(before.driver_id, ())
        wanted = next((event for event in own_events if event.kind == STOP_REQUESTED and _is_restart(event)), None)
        if before.exit is None or before.exit.is_failure:
            kind, cures = EventKind.RESTARTED, True
            why = _UNRECORDED if before.exit is None else describe(before.exit)
            after = None if before.exit is None else max(0.0, driver.launched_at - before.exit.ended_at)
        elif wanted is not None:
            kind, why = EventKind.RESTARTED, f"{wanted.detail.get('by', '')}: {wanted.detail.get('reason', '')}"
    return StreamEvent(
        at=driver.launched_at,
        kind=kind,
        stream=driver.stream,
        driver_id=driver.driver_id,
        who=driver.launched_by,
        why=why,
        after=after,
        cures=cures,
    )


def _requested(driver: DriverRecord, event: DriverEvent) -> StreamEvent:
    what = "restart: " if _is_restart(event) else ""
    return StreamEvent(
        at=event.at,
        kind=EventKind.STOP_REQUESTED,
        stream=driver.stream,
        driver_id=driver.driver_id,
        who=event.detail.get("by", ""),
        why=what + event.detail.get("reason", ""),
    )


def _is_restart(event: DriverEvent) -> bool:
    return event.detail.get("restart") == "true"


def _end(driver: DriverRecord, asked: Sequence[DriverEvent], replaced_at: float | None) -> list[StreamEvent]:
    """How the driver ended; nothing while it may be alive. `replaced_at`: when the next driver was launched."""
    end = driver.exit
    if end is None:
        if replaced_at is None:
            return []
        end = ExitRecord(kind=ExitKind.KILLED, ended_at=replaced_at, message=_UNRECORDED)
    requested = end.kind is ExitKind.STOPPED or end.on_request
    kind = EventKind.STOPPED if requested else _ENDS[end.kind]
    event = StreamEvent(
        at=end.ended_at,
        kind=kind,
        stream=driver.stream,
        driver_id=driver.driver_id,
        who=asked[-1].detail.get("by", "") if asked and requested else "",
        why=describe(end),
        next_step=end.next_step if kind is EventKind.CRASHED else "",
    )
    return [event]


_ENDS: Final[Mapping[ExitKind, EventKind]] = {
    ExitKind.FAILED: EventKind.CRASHED,
    ExitKind.KILLED: EventKind.CRASHED,
    ExitKind.COMPLETED: EventKind.COMPLETED,
    ExitKind.FENCED: EventKind.FENCED,
}


_BY_PEOPLE: Final[Mapping[str, EventKind]] = {
    BEGAN_ANEW: EventKind.BEGAN_ANEW,
    RESTORED: EventKind.RESTORED,
    REWRITTEN: EventKind.REWRITTEN,
}


def _done_by(driver: DriverRecord, event: DriverEvent) -> StreamEvent:
    return StreamEvent(
        at=event.at,
        kind=_BY_PEOPLE[event.kind],
        stream=driver.stream,
        driver_id=driver.driver_id,
        who=event.detail["by"],
        why=f"{event.detail['reason']}: {event.detail['observed']}",
    )


def _left_down(driver: DriverRecord, event: DriverEvent) -> StreamEvent:
    return StreamEvent(
        at=event.at,
        kind=EventKind.LEFT_DOWN,
        stream=driver.stream,
        driver_id=driver.driver_id,
        why=event.detail.get("reason", ""),
        next_step=event.detail.get("next_step", ""),
    )
