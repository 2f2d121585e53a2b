"""Gives a key of the state of a stopped stream another value."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.config.schema import load
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.surgery.assignment import Assign, Assigned, Assignment, require_assignable, unwanted
from streamwarden.lifecycle.time_travel.tables import StateTable, choose_table
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.state.gathering import held
from streamwarden.services.state.looking import ask
from streamwarden.services.state.rewriting import Place
from streamwarden.services.state.surgery import Operated, Surgery
from streamwarden.stream.spec import StreamSpec


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


SettingResult = Operated[ValueChange]


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


class _Surgery(Surgery[Setting, ValueChange]):
    __slots__ = ()
    command: ClassVar = "set"

    def write(self, path: str) -> ValueChange:
        with self.place.copied(path) as copy:
            request = _request(self.place, self.wanted, self.place.uri, to_hadoop(copy.path))
            with work_folder(self.place.spec) as folder:
                assigned = _ask(self.place, folder, request)
            self.place.require_exact(copy, lambda differences: unwanted(differences, assigned, request))
        return _value_change(request, assigned)

    def amount(self, changed: ValueChange) -> str:
        return "1 row"


assign: Final = _Surgery.operate
"""Gives a key of a stopped stream another value, or completes a setting that was killed."""


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
