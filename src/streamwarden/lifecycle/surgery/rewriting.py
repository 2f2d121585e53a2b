"""A request to rewrite a state, for the process that does it, and its answer. Each travels as JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.time_travel.answers import Key

SAMPLE: Final = 20
"""Keys that an answer names at most."""

_DIGITS: Final = 16
"""Hexadecimal digits of a digest that are shown: enough that no two requests of a stream have the same."""


def digest(stream: str, *named: str) -> str:
    """What the records say in place of what a person named. Whoever knows that can compute it, and so show that it was
    this; whoever does not cannot read it there."""
    return "sha256:" + hashlib.sha256("\n".join([stream, *named]).encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys that a person names: by fields, or by a condition.

    Args:
        fields: values of `--key`.
        where: a condition of Spark's SQL over the fields of `key`.
    """

    fields: tuple[str, ...] = ()
    where: str | None = None

    def digest(self, stream: str) -> str:
        """What the records say in place of the keys; see `digest`."""
        return digest(stream, *([self.where] if self.where is not None else sorted(self.fields)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A state to rewrite.

    Args:
        checkpoint: URI of a checkpoint that nobody changes meanwhile; batch: its state after this batch is read.
        operator: that has the keys; stores: of this operator.
        keys: that are left out; None: none is, and the state is written as it is.
        into: URI of a checkpoint with the same logs and no state, which gets it; None: the keys are only counted.
    """

    checkpoint: str
    batch: int
    operator: int
    stores: tuple[str, ...]
    keys: Keys | None
    into: str | None = None

    @property
    def words(self) -> str:
        """The part of the state."""
        return f"operator {self.operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of the named keys in one column family of a store: a variable, an index, the timers, a side of a join."""

    store: str
    family: str
    keys: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The named keys in a state.

    Args:
        fields: names of the key's fields.
        keys: how many there are, in all parts; by_store: in each store.
        sample: the first of them.
    """

    fields: tuple[str, ...]
    keys: int
    parts: tuple[Part, ...]
    by_store: Mapping[str, int]
    sample: tuple[Key, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


NONE: Final = Found(fields=(), keys=0, parts=(), by_store={}, sample=())
"""No key is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What was found and, if it was rewritten, what the new state still has of it."""

    found: Found
    left: Found | None = None
