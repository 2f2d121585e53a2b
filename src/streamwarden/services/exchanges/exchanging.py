"""Exchanges the checkpoint of a stopped stream for a prepared one: the way of every operation that changes one.

1. Under the lease of the stream, so that no driver starts meanwhile, everything is checked and copied: the operation
   writes the checkpoint that is to be beside the stream's, it is inspected and, for a
   restore, tried on a fork, and the sink prepares its part.
2. The journal is written. From here on a launch is refused until the exchange is complete.
3. The output is brought to the batch of the new checkpoint, then the checkpoints are exchanged by two renames. In an
   object store, which has none, the stream's checkpoint is first copied aside and closed: its `metadata` names the
   journal instead of a query, so that Spark refuses it until the new `metadata` comes, last.
4. The store learns of it, and the journal is moved into the previous checkpoint, which is kept beside the new one.

Killed in step 1 it has changed nothing, and what it left is removed by the next one. Killed later it goes on from the
journal when it is run again.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.adapters.storage.moving import Swap, exists, move, remove, remove_beside
from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.checkpoint.formats.logs import closed_by
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.exchanges.exchange import PREPARED, Exchange, OutputPlan, stamp_of
from streamwarden.lifecycle.queries import owner
from streamwarden.services.exchanges.journals import interrupted, journal_at, require_same, write_journal
from streamwarden.services.exchanges.outputs import bring_output, require_number_free
from streamwarden.services.exchanges.refusals import alone, require_continuable, require_exchangeable
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_JOURNAL: Final = "exchange.json"
"""The name of the journal in the previous checkpoint, when the exchange is complete."""


class Change(ABC):
    """Another checkpoint for a stream. Its methods run under the lease, and change nothing that the stream uses."""

    @abstractmethod
    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        """The exchange, without the sink's part."""

    @abstractmethod
    def fill(self, exchange: Exchange) -> None:
        """Write the checkpoint to `exchange.prepared`. Raises CheckpointError, OSError."""

    def plan_output(self, exchange: Exchange) -> OutputPlan:
        """Plan the sink's part; nothing is changed. Raises CheckpointError, OSError."""
        return OutputPlan(words="the output is not touched")

    def prepare_output(self, exchange: Exchange) -> None:  # noqa: B027 - a sink of its own service has nothing to copy
        """Copy what the sink's part needs. Raises CheckpointError, OSError."""

    def prove(self, exchange: Exchange) -> str:
        """Try the prepared checkpoint on a fork; returns what that proved, empty if it was not tried.

        Raises CheckpointError if Spark does not go on from it."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """What an exchange did.

    Args:
        output: what was done to the output.
        aside: the previous checkpoint; None: there was none. resumed: an earlier exchange was completed.
    """

    exchange: Exchange
    output: str
    aside: str | None
    resumed: bool


def exchange(
    store: "Store",
    spec: StreamSpec,
    change: Callable[[], Change],
    subject: str | None,
    *,
    now: Callable[[], float] = time.time,
) -> Exchanged:
    """Give a stopped stream another checkpoint, or complete an exchange that was killed.

    Args:
        change: checks what was asked for; it is called under the lease, unless an exchange was interrupted.
        subject: what was asked for, as the exchange names it; None: whatever was begun is completed.

    Raises:
        CheckpointError: the change is not possible, or another one was interrupted.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    require_exchangeable(spec, spec.checkpoint)
    at = now()
    with alone(store, spec, at):
        begun = interrupted(spec)
        if begun is not None:
            require_same(begun, subject)
            return _carried_out(store, spec, begun, now, resumed=True)
        return _carried_out(store, spec, _begun(spec, change(), at), now, resumed=False)


def _begun(spec: StreamSpec, change: Change, at: float) -> Exchange:
    """Step 1 and 2. Raises CheckpointError; nothing is changed then."""
    checkpoint = checkpoint_of(spec)
    try:
        wanted = change.planned(checkpoint.path, stamp_of(at))
        remove_beside(checkpoint, PREPARED)  # left by one that was killed before it began
        require_number_free(spec, wanted)
        output = change.plan_output(wanted).document
        change.fill(wanted)
        require_continuable(spec, open_path(wanted.prepared, spec.storage.connection))
        wanted = replace(wanted, output=output, proof=change.prove(wanted))
        change.prepare_output(wanted)
        write_journal(spec, wanted)
    except OSError as error:
        raise _failed(checkpoint.path, error) from error
    return wanted


def _carried_out(
    store: "Store", spec: StreamSpec, begun: Exchange, now: Callable[[], float], *, resumed: bool
) -> Exchanged:
    """Steps 3 and 4. Each part does nothing if it was done before."""
    swap, journal = _swap(spec, begun), journal_at(spec)
    try:
        swap.close(closed_by(journal.path))
        output = bring_output(spec, begun)
        swap.carry_out()
        _record(store, begun, output, now())
        kept = exists(swap.aside)
        if kept:
            move(journal, swap.aside / _JOURNAL)
        else:
            remove(journal)
    except OSError as error:
        raise _interrupted(begun, journal.path, error) from error
    return Exchanged(exchange=begun, output=output, aside=swap.aside.path if kept else None, resumed=resumed)


def _swap(spec: StreamSpec, begun: Exchange) -> Swap:
    live, prepared, aside = (
        open_path(place, spec.storage.connection) for place in (begun.checkpoint, begun.prepared, begun.aside)
    )
    return Swap(live=live, prepared=prepared, aside=aside, guard=METADATA)


def _record(store: "Store", begun: Exchange, output: str, at: float) -> None:
    """Who did it and why is in the stream's history. After a restore, later batches that the store knows of the query
    do not count any more, at a launch and as the stream's newest."""
    if begun.goes_back:
        store.batches.take_back(begun.stream, begun.query_id, begun.batch, begun.stamp)
    latest = store.drivers.latest(owner(begun.stream))
    if latest is not None:
        observed = "; ".join(filter(None, [f"{begun.subject}, batch {begun.batch}", output, begun.proof]))
        detail = {"by": begun.by, "reason": begun.reason or "no reason was given", "observed": observed}
        store.drivers.event(DriverEvent(driver_id=latest.driver_id, at=at, kind=begun.event, detail=detail))


def _failed(checkpoint: str, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint could not be prepared, and nothing was changed: {error}",
        expected="room beside the checkpoint and in the output, and the right to write there",
        where=checkpoint.rpartition("/")[0],
        next_step="make room or correct the permissions, then run the same command again",
    )


def _interrupted(begun: Exchange, journal: str, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the {begun.operation} is not complete: {error}",
        expected="checkpoint and output of the same batch",
        where=journal,
        next_step=f"correct that, then complete it: run `{begun.command}`; until then no driver is started",
    )
