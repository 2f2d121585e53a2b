"""Changes the state of a stopped stream by keys that no record may name.

Spark writes a copy of the checkpoint, which is verified (`services.state.rewriting`). A savepoint is taken, and then
the copy takes the checkpoint's place (`services.exchanges.exchanging`).
"""

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.rewriting import Place
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


class Wanted(Protocol):
    """What is asked for. `subject`: what the records call it, without the keys."""

    def subject(self, stream: str) -> str: ...


_Wanted = TypeVar("_Wanted", bound=Wanted)
_Changed = TypeVar("_Changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated(Generic[_Changed]):
    """What was done. None: an interrupted change was completed. `savepoint`: the way back."""

    exchanged: Exchanged
    changed: _Changed | None
    savepoint: Savepoint | None


@dataclass(frozen=True, slots=True)
class Surgery(Change, Generic[_Wanted, _Changed]):
    """One change. What it did is in `changed` and `taken`, one each."""

    command: ClassVar[str]
    """That of `streamwarden state`, which the records name without its arguments."""

    place: Place
    wanted: _Wanted
    author: Author
    now: Callable[[], float]
    changed: list[_Changed] = field(default_factory=list)
    taken: list[Savepoint] = field(default_factory=list)

    @classmethod
    def operate(
        cls, store: "Store", spec: StreamSpec, wanted: _Wanted, author: Author, *, now: Callable[[], float] = time.time
    ) -> Operated[_Changed]:
        """Change the state of a stopped stream, or complete a change that was killed.

        Raises:
            CheckpointError: the state cannot be changed so, or Spark's result is not the state with this change alone.
                Nothing is changed then.
            ConfigError: the keys, the operator or the value cannot be named so.
            LeaseHeld: the stream runs.
            ProcessError: there is no usable Java, or the rewriting process died. Nothing is changed then.
            StoreError: the store is down.
        """
        begun: list[Surgery[_Wanted, _Changed]] = []

        def change() -> Change:
            begun.append(cls(cls.place_of(spec, wanted), wanted, author, now))
            return begun[0]

        done = exchange(store, spec, change, wanted.subject(spec.name), now=now)
        changed, savepoint = (begun[0].changed[0], begun[0].taken[0]) if begun else (None, None)
        return Operated(exchanged=done, changed=changed, savepoint=savepoint)

    @classmethod
    def place_of(cls, spec: StreamSpec, wanted: _Wanted) -> Place:
        """The state of a stopped stream. Raises CheckpointError, ConfigError."""
        return Place.stopped(spec)

    @abstractmethod
    def write(self, path: str) -> _Changed:
        """Write the checkpoint to `path`, verified. Raises CheckpointError, OSError."""

    @abstractmethod
    def amount(self, changed: _Changed) -> str:
        """How much was changed, for the records."""

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        stream = self.place.spec.name
        subject, command = self.wanted.subject(stream), f"{self.command} {stream} …"
        return self.place.exchange(checkpoint, stamp, self.author, subject=subject, command=command)

    def fill(self, exchange: Exchange) -> None:
        self.changed.append(self.write(exchange.prepared))

    def prove(self, exchange: Exchange) -> str:
        """That is done: the states were compared. Now there is something to go back from."""
        self.taken.append(create(self.place.spec, None, self.author, now=self.now))
        return f"{self.amount(self.changed[0])}; savepoint {self.taken[0].id}"
