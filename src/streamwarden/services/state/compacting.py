"""Compacts the state of a stopped stream: one snapshot in each partition, and nothing else.

A start replays what changed since the newest snapshot. Of a stream that never lived long enough to upload one, that is
every batch. Spark writes the state anew into a copy of the checkpoint (`services.state.rewriting`), which has to have
the same content, and takes the checkpoint's place.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.state import state_stores
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.gathering import layout_of
from streamwarden.services.state.rewriting import Place
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count, format_size

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

SUBJECT: Final = "compaction"
"""What the exchange was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Files of a state that have a version, and bytes of all its files."""

    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{format_count(self.files, 'version file')} with {format_size(self.bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What was done. `before`: None: an interrupted compaction was completed."""

    exchanged: Exchanged
    before: Size | None
    after: Size


def planned(spec: StreamSpec, *, runs: bool) -> Size:
    """What a compaction would begin with.

    Args:
        runs: the stream is stopped first, so that a batch that it executes now is no obstacle.

    Raises CheckpointError if the state cannot be rewritten.
    """
    checkpoint = checkpoint_of(spec)
    batch = log_position(checkpoint).committed
    if runs and batch is not None:
        Place.of(spec, checkpoint, layout_of(spec, checkpoint), batch)
    else:
        Place.stopped(spec)
    return _size(checkpoint)


def compact(store: "Store", spec: StreamSpec, author: Author, *, now: Callable[[], float] = time.time) -> Compacted:
    """Compact the state of a stopped stream, or complete a compaction that was killed.

    Raises:
        CheckpointError: the state cannot be rewritten, or Spark's result has another content. Nothing is changed then.
        LeaseHeld: the stream runs.
        ProcessError: there is no usable Java, or the rewriting process died. Nothing is changed then.
        StoreError: the store is down.
    """
    before: list[Size] = []

    def change() -> Change:
        before.append(_size(checkpoint_of(spec)))
        return _Compaction(Place.stopped(spec), author)

    done = exchange(store, spec, change, SUBJECT, now=now)
    return Compacted(exchanged=done, before=before[0] if before else None, after=_size(checkpoint_of(spec)))


@dataclass(frozen=True, slots=True)
class _Compaction(Change):
    place: Place
    author: Author

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        command = f"compact {self.place.spec.name}"
        return self.place.exchange(checkpoint, stamp, self.author, subject=SUBJECT, command=command)

    def fill(self, exchange: Exchange) -> None:
        self.place.rewrite(exchange.prepared, None)


def _size(checkpoint: Location) -> Size:
    stores = state_stores(checkpoint)
    return Size(files=sum(len(store.files) for store in stores), bytes=sum(store.bytes for store in stores))
