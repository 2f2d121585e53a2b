"""The fence: a file beside a checkpoint with which a new driver ends an old one that no longer reaches the store. Pure.

A driver that reaches the store learns there that its lease was taken over. One that is cut off from the store goes on,
because an outage of the store must not stop a stream, and meanwhile its lease expires. A driver that takes such a lease
over first writes the fence. The old one looks for it as long as it cannot renew its lease, and ends if it finds one. If
it does not reach the storage of its checkpoint either, it commits nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.location import plain_path

SUSPECT_AFTER: Final = 10.0
"""Seconds without a renewal of the lease after which a driver looks for a fence: two renewals failed. A lease is taken
over after 30 s at the earliest."""

LOOK_EVERY: Final = 1.0
"""Seconds between two looks."""

SETTLES: Final = 5.0
"""Seconds that a new driver waits after it has written the fence: a look of the old one, and the end of its queries.
The new driver's own start takes some seconds more until it reads the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The driver that may write to the checkpoint. `at`: Unix seconds, for people."""

    token: int
    holder: str
    host: str
    at: float

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Fence":
        """The fence in a JSON object. Raises KeyError, TypeError, ValueError."""
        return cls(
            token=int(document["token"]),
            holder=str(document["holder"]),
            host=str(document["host"]),
            at=float(document["at"]),
        )


def fence_of(checkpoint: str) -> str:
    """The path of the fence, beside the checkpoint."""
    return f"{plain_path(checkpoint)}.fence.json"


def keeps_out(fence: Fence | None, *, holder: str, token: int) -> bool:
    """Whether the fence excludes the driver `holder`, whose lease on the checkpoint has this token."""
    return fence is not None and fence.holder != holder and fence.token > token


def must_fence(previous: DriverRecord | None, here: str) -> bool:
    """Whether the driver before this one may still run, although its lease was taken over: it ran on another host, and
    nobody saw its process end."""
    if previous is None or previous.process is None or previous.process.host == here:
        return False
    end = previous.exit
    return end is None or (end.kind is ExitKind.KILLED and end.exit_code is None and end.signal is None)
