"""Whether another host reaches a storage that does not answer on this one. Pure.

A storage that answers nobody is waited for: a start on another host would not help. If it answers elsewhere, it is this
host that is cut off. So the driver asks, by an event in the store, and any other host that reads the very checkpoint
answers by another event.
"""

from collections.abc import Collection, Iterable
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.units import Seconds

STORAGE_SILENT: Final = "StorageUnresponsive"
"""Error class of a driver that ended because the storage of its checkpoint did not answer on its host."""

OTHERS_FIRST: Final[Seconds] = 30.0
"""Seconds for which the host of such a driver leaves the stream to others: it would claim the stream, find no storage,
and keep them out meanwhile."""

ASK_AFTER: Final[Seconds] = 10.0
"""Seconds without an answer after which a driver asks other hosts."""

GIVE_UP_AFTER: Final[Seconds] = 15.0
"""Seconds without an answer after which a driver ends if another host has got one."""

ASKED: Final = "storage_silent"
"""Kind of the event by which a driver asks: `checkpoint`, `connection` (of an object store, else empty), and the
`metadata` of the query, which whoever answers must have read there."""

REACHED: Final = "storage_reached"
"""Kind of the event by which a host answers: `host`, and `asked`, the time of the question."""


def question(driver_id: str, at: float, *, checkpoint: str, connection: str | None, metadata: str) -> DriverEvent:
    """What a driver asks. `at`: by the clock of the store's server."""
    detail = {"checkpoint": checkpoint, "connection": connection or "", "metadata": metadata}
    return DriverEvent(driver_id=driver_id, at=at, kind=ASKED, detail=detail)


def answer(asked: DriverEvent, host: str, at: float) -> DriverEvent:
    """What a host says that reaches the checkpoint."""
    detail = {"host": host, "asked": str(asked.at)}
    return DriverEvent(driver_id=asked.driver_id, at=at, kind=REACHED, detail=detail)


def reached_by(
    answers: Iterable[DriverEvent], asked: DriverEvent, *, here: str, drained: Collection[str]
) -> str | None:
    """The name of a host, other than `here`, that has answered this question and may start drivers; None: there is
    none."""
    hosts = (event.detail["host"] for event in answers if event.detail["asked"] == str(asked.at))
    return next((host for host in hosts if host != here and host not in drained), None)
