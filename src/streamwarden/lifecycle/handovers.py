"""What a driver records of the functions that Spark hands its batches to, so that others see when each of them wrote.

Between the end of such a function and Spark's commit no file of the checkpoint changes, and the batch may run again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.lifecycle.driver_folder import HANDOVERS, HOLD, read_document

_KEPT: Final = 30
"""The newest batches of a query that the record has; it has the first one of the driver too, which may have run
before."""


LONGEST_HOLD: Final = 20.0
"""Seconds after which a held batch goes on, and no later one is held: the drill that asked for it may be dead."""


_POLL: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One call of a function of `foreachBatch`. Times are Unix seconds.

    Args:
        query_id: as in the query's checkpoint; empty: Spark did not say.
        wrote_at: the end of the first write that the function made with Spark; None: none so far.
        ended_at: when it returned or raised; None: it has not.
    """

    query_id: str
    batch: int
    began_at: float
    wrote_at: float | None = None
    ended_at: float | None = None
    raised: bool = False

    @property
    def handed_over_at(self) -> float | None:
        """When the function had returned, or had raised although it had written; None: neither has happened."""
        return self.ended_at if not self.raised or self.wrote_at is not None else None

    @property
    def wrote(self) -> bool:
        """Something of the batch was written. What a function writes without Spark counts when it has returned."""
        return self.wrote_at is not None or self.handed_over_at is not None


def write_handovers(folder: Path, handovers: Iterable[Handover]) -> None:
    """Replace the record in a driver's folder; a crash of the host may lose it. Raises OSError."""
    document = {"handovers": [asdict(handover) for handover in handovers]}
    disk.replace(folder / HANDOVERS, json.dumps(document), mode=disk.PRIVATE, durable=False)


def read_handovers(folder: Path) -> tuple[Handover, ...]:
    """The record in a driver's folder, oldest first; empty if there is none."""
    document = read_document(folder / HANDOVERS) or {}
    return tuple(Handover(**handover) for handover in document.get("handovers", ()))


def ask_to_hold(folder: Path, wanted: bool) -> None:
    """Ask the driver to wait after the next function of foreachBatch has ended, before Spark commits the batch; or let
    it go on."""
    if wanted:
        (folder / HOLD).touch()
    else:
        (folder / HOLD).unlink(missing_ok=True)


def await_release(folder: Path) -> None:
    """Wait as long as a drill asks for it, and at most `LONGEST_HOLD`."""
    deadline = time.monotonic() + LONGEST_HOLD
    while (folder / HOLD).exists():
        if time.monotonic() > deadline:
            ask_to_hold(folder, False)
        time.sleep(_POLL)


def kept(handovers: Sequence[Handover]) -> list[Handover]:
    """The part of one query's handovers, oldest first, that is worth keeping."""
    return list(handovers) if len(handovers) <= _KEPT else [handovers[0], *handovers[-_KEPT + 1 :]]


def ran_again(drivers: Iterable[Sequence[Handover]], query_id: str | None) -> bool | None:
    """Whether a function got a batch of the query again after it had written it; None: no function got any.

    Args:
        drivers: what each driver of the query recorded, the first driver first.
    """
    written: set[int] = set()
    calls = [call for driver in drivers for call in driver if call.query_id in (query_id, "")]
    for call in calls:
        if call.batch in written:
            return True
        written |= {call.batch} if call.wrote else set()
    return False if calls else None
