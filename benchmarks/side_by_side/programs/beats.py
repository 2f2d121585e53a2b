"""The logic of `device_heartbeats`, for the peers that are written in Python. It is that of the catalogue's job."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

HEARTBEAT, INACTIVE, LATE = 30_000, 120_000, 60_000


def at_of(reading: Any) -> int:
    """Its time, Unix milliseconds."""
    return round(datetime.fromisoformat(reading["event_time"].replace("Z", "+00:00")).timestamp() * 1000)


def first_point(at: int, device: str) -> int:
    """The first point of the device's grid at or after `at`."""
    return at + (zlib.crc32(device.encode()) - at) % HEARTBEAT


@dataclass
class Device:
    """The active sessions of a device, and the readings that its clock has not reached.

    Args:
        sessions: name -> number, start, last reading (ms), readings, state.
        pending: time (ms), session, state.
    """

    name: str
    sessions: dict[str, tuple[int, int, int, int, str]] = field(default_factory=dict)
    pending: list[tuple[int, str, str]] = field(default_factory=list)
    begun: int = 0
    due: int | None = None

    def add(self, at: int, session: str, state: str) -> None:
        """A reading waits for the next point of the grid."""
        self.pending.append((at, session, state))
        point = first_point(at, self.name)
        self.due = point if self.due is None else min(self.due, point)

    def catch_up(self, clock: int) -> Iterator[str]:
        """Every row that is due at `clock`."""
        while self.due is not None and self.due <= clock:
            yield from self._beat(self.due)
            if self.sessions:
                self.due = first_point(self.due + 1, self.name)
            else:
                self.begun = 0
                self.due = first_point(min(self.pending)[0], self.name) if self.pending else None

    def _beat(self, point: int) -> Iterator[str]:
        until = sorted(reading for reading in self.pending if reading[0] <= point)
        self.pending = [reading for reading in self.pending if reading[0] > point]
        added: dict[str, int] = {}
        for at, name, state in until:
            session = self.sessions.get(name)
            if session is not None and at > session[2] + INACTIVE:
                yield self._row(name, "END", session[2] + INACTIVE, added.pop(name, 0))
                session = None
            if session is None:
                self.begun += 1
                session = (self.begun, at, at, 0, "")
            self.sessions[name] = (session[0], session[1], max(session[2], at), session[3] + 1, state)
            added[name] = added.get(name, 0) + 1
        for name in list(self.sessions):
            end = self.sessions[name][2] + INACTIVE
            if point > end:
                yield self._row(name, "END", end, added.get(name, 0))
                del self.sessions[name]
            else:
                yield self._row(name, "HEARTBEAT", point, added.get(name, 0))

    def _row(self, name: str, kind: str, at: int, added: int) -> str:
        number, started, _, readings, state = self.sessions[name]
        row = {"device_id": self.name, "session_id": name, "kind": kind, "at": at, "number": number}
        return json.dumps({**row, "started_at": started, "readings": readings, "added": added, "state": state})
