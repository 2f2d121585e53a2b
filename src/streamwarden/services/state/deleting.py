"""Deletes keys from the state of a stopped stream.

Spark writes a copy of the checkpoint without them, which is verified (`services.state.rewriting`). A savepoint is
taken, and then the copy takes the checkpoint's place (`services.exchanges.exchanging`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.surgery.rewriting import Found, Keys
from streamwarden.lifecycle.surgery.soundness import require_found
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.state.gathering import held
from streamwarden.services.state.rewriting import Place
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What is asked for. `operator`: None: the only one."""

    keys: Keys
    operator: int | None = None

    def subject(self, stream: str) -> str:
        """What the records call it: without the keys, which are deleted."""
        of = "" if self.operator is None else f" of operator {self.operator}"
        return f"deletion of keys{of}, {self.keys.digest(stream)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The keys that a state has. `operator`: one of its stores; batch: the state is that after it."""

    operator: StateTable
    batch: int
    found: Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What was done. None: an interrupted deletion was completed. `savepoint`: the way back."""

    exchanged: Exchanged
    counted: Counted | None
    savepoint: Savepoint | None


def count(spec: StreamSpec, wanted: Deletion) -> Counted:
    """What a deletion would take out of the state after the newest committed batch; it changes nothing, and the stream
    may be running.

    Raises:
        CheckpointError: the state has no such key, or cannot be rewritten.
        ConfigError: the keys or the operator cannot be named so.
        ProcessError: there is no usable Java, or the reading process died.
    """
    with held(spec) as state:
        batch = state.batch(None)
        place = Place.of(spec, state.logs.checkpoint, state.layout, batch).with_operator(wanted.operator)
        done = place.ask(state.folder, wanted.keys, state.for_reading((batch,)))
    require_found(done.found, spec.checkpoint)
    return _counted(place, done.found)


def delete(
    store: "Store", spec: StreamSpec, wanted: Deletion, author: Author, *, now: Callable[[], float] = time.time
) -> Deleted:
    """Delete keys from the state of a stopped stream, or complete a deletion that was killed.

    Raises as `count`, and:
        CheckpointError: Spark's result is not the state without the keys. Nothing is changed then.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    made: list[_Deletion] = []

    def change() -> Change:
        place = Place.stopped(spec).with_operator(wanted.operator)
        made.append(_Deletion(place, wanted, author, now))
        return made[0]

    done = exchange(store, spec, change, wanted.subject(spec.name), now=now)
    return Deleted(
        exchanged=done,
        counted=_counted(made[0].place, made[0].found[0]) if made else None,
        savepoint=made[0].taken[0] if made else None,
    )


def copies(spec: StreamSpec) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """What may still have a key that was deleted: the stream's savepoints, and its previous checkpoints beside it."""
    checkpoint = Path(checkpoint_of(spec).path)
    before = sorted(checkpoint.parent.glob(f"{checkpoint.name}.before-*"))
    return tuple(Savepoints.of(spec).ids()), tuple(before)


@dataclass(frozen=True, slots=True)
class _Deletion(Change):
    place: Place
    wanted: Deletion
    author: Author
    now: Callable[[], float]
    found: list[Found] = field(default_factory=list)
    taken: list[Savepoint] = field(default_factory=list)

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        name = self.place.spec.name  # no record names the key: the command is the one that was given
        subject, command = self.wanted.subject(name), f"delete {name} …"
        return self.place.exchange(checkpoint, stamp, self.author, subject=subject, command=command)

    def fill(self, exchange: Exchange) -> None:
        self.found.append(self.place.rewrite(exchange.prepared, self.wanted.keys))

    def prove(self, exchange: Exchange) -> str:
        """That is done: the states were compared. Now there is something to go back from."""
        found = self.found[0]
        self.taken.append(create(self.place.spec, None, self.author, now=self.now))
        return f"{format_count(found.keys, 'key')} with {format_count(found.rows, 'row')}; savepoint {self.taken[0].id}"


def _counted(place: Place, found: Found) -> Counted:
    assert place.operator is not None  # it has the keys
    return Counted(operator=place.operator, batch=place.batch, found=found)
