"""A request to give a key another value, for the process that does it, its answer, and what may be set at all. Pure.

Request and answer each travel as JSON.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.surgery.rewriting import digest
from streamwarden.lifecycle.surgery.soundness import Differences
from streamwarden.lifecycle.time_travel.answers import Change, Entry
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind

_ONE_VALUE: Final = ("stateStoreSave", "flatMapGroupsWithState", "applyInPandasWithState")
"""Operators, beside transformWithState, that keep one row for each key, with nothing in it but the value."""

_FAMILY: Final = "default"
"""The column family of an operator that has only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A key and its new value, as a person names them.

    Args:
        keys: values of `--key`; value: values of `--value`.
    """

    keys: tuple[str, ...]
    value: tuple[str, ...]

    def digest(self, stream: str) -> str:
        """What the records say in place of key and value; see `rewriting.digest`."""
        return digest(stream, *sorted(self.keys), *sorted(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """An assignment to carry out.

    Args:
        checkpoint: URI of a checkpoint that nobody changes meanwhile; batch: its state after this batch is read.
        table: that has the value; store: of its operator.
        into: URI of a checkpoint with the same logs and no state, which gets it; None: nothing is written.
    """

    checkpoint: str
    batch: int
    table: StateTable
    store: str
    wanted: Assignment
    into: str | None = None

    @property
    def words(self) -> str:
        """The part of the state."""
        return self.table.words

    @property
    def family(self) -> str:
        """The column family of the value."""
        return str(self.table.variable) if self.table.kind is TableKind.VALUE else _FAMILY


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The rows in which two stores differ, to the byte. `right`: those that came and are exactly the wanted one."""

    gone: int
    came: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The value before and after.

    Args:
        fields: names of the key's fields.
        before: the row as it was; None: the key had other state, and none in this table. after: as it is to be.
        proven: values of the state that were encoded again, each with the bytes that are stored.
        written: None: nothing was.
    """

    fields: tuple[str, ...]
    before: Entry | None
    after: Entry
    proven: int
    written: Written | None = None


def is_assignable(table: StateTable) -> bool:
    """Whether the keys of a table have exactly one value each."""
    return table.kind is TableKind.VALUE or (table.kind is TableKind.ROWS and table.name in _ONE_VALUE)


def require_assignable(table: StateTable, where: str) -> None:
    """Raises ConfigError for a table whose keys have not exactly one value each."""
    if is_assignable(table):
        return
    raise ConfigError(
        f"{table.words} has no value that could be set: it is a {table.kind} of {table.name}",
        expected="a value of transformWithState, the state of applyInPandasWithState, or an aggregation without "
        "sessions",
        where=where,
        next_step="delete the key with `streamwarden state delete`, so that it begins anew",
    )


def unwanted(differences: Differences, done: Assigned, assign: Assign) -> tuple[str, ...]:
    """What the new state has otherwise than the old one with the value; empty: it is exactly that."""
    return (*_unwanted_rows(done), *_unwanted_differences(differences, done, assign))


def _unwanted_rows(done: Assigned) -> Iterator[str]:
    assert done.written is not None  # it was
    expected = Written(gone=0 if done.before is None else 1, came=1, right=1)
    if done.written != expected:
        found = done.written
        yield f"{found.gone} rows of the store went and {found.came} came, {found.right} of them as it has to be"


def _unwanted_differences(differences: Differences, done: Assigned, assign: Assign) -> Iterator[str]:
    for table, found in differences:
        own = table == assign.table
        holds = own or (table.kind is TableKind.STORE and table.operator == assign.table.operator)
        appeared = int(own and done.before is None)
        if (found.appeared, found.vanished, found.changed) != (appeared, 0, int(holds) - appeared):
            yield f"{table.words}: {found.appeared} keys appeared, {found.vanished} vanished, {found.changed} changed"
        elif own and not _is_the_change(found.sample, done):
            yield f"{table.words}: Spark reads another value than the one that was given"


def _is_the_change(sample: Sequence[Change], done: Assigned) -> bool:
    """Whether the one key that changed is the named one, and Spark reads what was given."""
    rows = [(change.key, json.loads(change.after or "{}")) for change in sample]
    return [(key, row.get("value"), row.get("expires_ms")) for key, row in rows] == [
        (done.after.key, done.after.value, done.after.expires_ms)
    ]
