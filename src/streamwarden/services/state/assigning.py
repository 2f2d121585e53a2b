"""Gives a key of the state of a stopped stream another value.

Spark writes a copy of the checkpoint with it, which is verified (`services.state.rewriting`). A savepoint is taken, and
then the copy takes the checkpoint's place (`services.exchanges.exchanging`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.config.schema import load
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.surgery.assignment import Assign, Assigned, Assignment, require_assignable, unwanted
from streamwarden.lifecycle.time_travel.tables import StateTable, choose_table
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.exchanges.exchanging import Change, Exchanged, exchange
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.gathering import held
from streamwarden.services.state.looking import ask
from streamwarden.services.state.rewriting import Place
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is asked for. `operator`, `variable`: None: the only one."""

    assignment: Assignment
    operator: int | None = None
    variable: str | None = None

    def subject(self, stream: str) -> str:
        """What the records call it: without the key and the value, which may be a person's."""
        of = "" if self.variable is None else f" of {self.variable}"
        of += "" if self.operator is None else f" of operator {self.operator}"
        return f"setting of a value{of}, {self.assignment.digest(stream)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """The value before and after. `batch`: the state is that after it."""

    table: StateTable
    batch: int
    assigned: Assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingResult:
    """What was done. None: an interrupted setting was completed. `savepoint`: the way back."""

    exchanged: Exchanged
    change: ValueChange | None
    savepoint: Savepoint | None


def plan(spec: StreamSpec, wanted: Setting) -> ValueChange:
    """What a setting would change in the state after the newest committed batch; it changes nothing, and the stream may
    be running.

    Raises:
        CheckpointError: the state has no such key, cannot be rewritten, or Spark's encoding of it is not proven.
        ConfigError: the key, the table or the value cannot be named so.
        ProcessError: there is no usable Java, or the reading process died.
    """
    with held(spec) as state:
        batch = state.batch(None)
        place = Place.of(spec, state.logs.checkpoint, state.layout, batch)
        request = _request(place, wanted, state.for_reading((batch,)))
        return _value_change(request, _ask(place, state.folder, request))


def assign(
    store: "Store", spec: StreamSpec, wanted: Setting, author: Author, *, now: Callable[[], float] = time.time
) -> SettingResult:
    """Give a key of a stopped stream another value, or complete a setting that was killed.

    Raises as `plan`, and:
        CheckpointError: Spark's result is not the state with that value. Nothing is changed then.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    made: list[_SettingChange] = []

    def change() -> Change:
        made.append(_SettingChange(Place.stopped(spec), wanted, author, now))
        return made[0]

    done = exchange(store, spec, change, wanted.subject(spec.name), now=now)
    return SettingResult(
        exchanged=done,
        change=made[0].done[0] if made else None,
        savepoint=made[0].taken[0] if made else None,
    )


@dataclass(frozen=True, slots=True)
class _SettingChange(Change):
    place: Place
    wanted: Setting
    author: Author
    now: Callable[[], float]
    done: list[ValueChange] = field(default_factory=list)
    taken: list[Savepoint] = field(default_factory=list)

    def planned(self, checkpoint: str, stamp: str) -> Exchange:
        name = self.place.spec.name  # no record names the key: the command is the one that was given
        return self.place.exchange(
            checkpoint, stamp, self.author, subject=self.wanted.subject(name), command=f"set {name} …"
        )

    def fill(self, exchange: Exchange) -> None:
        with self.place.copied(exchange.prepared) as copy:
            request = _request(self.place, self.wanted, self.place.uri, to_hadoop(copy.path))
            with work_folder(self.place.spec) as folder:
                assigned = _ask(self.place, folder, request)
            self.place.require_exact(copy, lambda differences: unwanted(differences, assigned, request))
        self.done.append(_value_change(request, assigned))

    def prove(self, exchange: Exchange) -> str:
        """That is done: the states were compared. Now there is something to go back from."""
        self.taken.append(create(self.place.spec, None, self.author, now=self.now))
        return f"1 row; savepoint {self.taken[0].id}"


def _request(place: Place, wanted: Setting, read: str, into: str | None = None) -> Assign:
    """Raises ConfigError if the state has no such table, or one whose keys have not one value each."""
    table = choose_table(place.layout.tables, wanted.operator, wanted.variable, place.spec.name)
    require_assignable(table, place.spec.name)
    (store,) = (str(store.variable) for store in place.layout.whole if store.operator == table.operator)
    return Assign(checkpoint=read, batch=place.batch, table=table, store=store, wanted=wanted.assignment, into=into)


def _ask(place: Place, folder: Path, request: Assign) -> Assigned:
    """Raises as `looking.ask`, and CheckpointError if the key has that value."""
    (answer,) = ask(place.spec, folder, place.layout, [request], program="assigning", waits=request.into is not None)
    assigned = load(Assigned, answer)
    if assigned.before == assigned.after:
        raise CheckpointError(
            "the key has this value already",
            expected="another value",
            where=place.spec.checkpoint,
            next_step="nothing has to be done",
        )
    return assigned


def _value_change(request: Assign, assigned: Assigned) -> ValueChange:
    return ValueChange(table=request.table, batch=request.batch, assigned=assigned)
