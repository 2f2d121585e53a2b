"""Looks at state that somebody asked for and that a run of a DAG carries out: question and answer are one document."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Difference, History, Refused, Shown
from streamwarden.lifecycle.time_travel.bounds import bounded
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look, Selection
from streamwarden.services.state.private_documents import Documents, new_id, refusal
from streamwarden.stream.spec import StreamSpec

ROWS: Final = 50
"""Rows, and keys of a sample, that an answer has at most."""
BATCHES: Final = 20
"""Batches of a history: each is one reading of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person wants to see of a state.

    Args:
        operator: number of the operator; None: the only one.
        variable: a state variable, `timers`, or the side of a join; None: the only table.
        keys: each as FIELD=VALUE, or VALUE if the key has one field; empty: all keys.
        batch: the state after it; None: the newest that is kept.
        since: an earlier batch, to which the state is compared; None: it is only shown.
        history: the keys after each of the newest batches, in place of one state.
    """

    operator: int | None = None
    variable: str | None = None
    keys: tuple[str, ...] = ()
    batch: int | None = None
    since: int | None = None
    history: bool = False

    def __post_init__(self) -> None:
        if self.history and (not self.keys or self.batch is not None or self.since is not None):
            raise ConfigError(
                "a history shows one key after each batch",
                expected="a key, and neither a batch nor an earlier one",
                where="the question",
                next_step="name a key, or leave the history out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A look, and its answer when there is one: `shown`, `history`, `difference` or `refusal`.

    Args:
        by: who asked.
        asked_at: Unix seconds.
        answered_at: Unix seconds; None: not yet.
        batches: at which the state was looked at, ascending.
        committed_at: of the last of them, Unix seconds; None: unknown.
        refusal: why there is no answer.
    """

    id: str
    stream: str
    by: str
    asked_at: float
    wanted: Wanted
    answered_at: float | None = None
    table: StateTable | None = None
    batches: tuple[int, ...] = ()
    committed_at: float | None = None
    shown: Shown | None = None
    history: History | None = None
    difference: Difference | None = None
    refusal: Refused | None = None

    @property
    def sentence(self) -> str:
        """What was answered, without a word of the state itself."""
        if self.refusal is not None:
            return "there is no answer; the stream's page says why"
        last = self.batches[-1] if self.batches else None
        if self.shown is not None:
            return f"{len(self.shown.entries):,} of {self.shown.rows:,} rows after batch {last}"
        if self.difference is not None:
            found = self.difference
            return (
                f"batches {self.batches[0]} and {last}: {found.appeared:,} keys appeared, {found.vanished:,} vanished, "
                f"{found.changed:,} changed"
            )
        return f"a history of {len(self.batches)} batches" if self.history is not None else "it is not answered yet"


class Looks(Documents[Seen]):
    """The looks of one stream or query. Each is bounded."""

    __slots__ = ()

    folder: ClassVar = "looks"
    keep: ClassVar = 3600.0
    most: ClassVar = 10
    kind: ClassVar = Seen

    def ask(self, by: str, wanted: Wanted, now: float) -> Seen:
        """Keep a question for the DAG. Raises OSError."""
        return self.add(Seen(id=new_id(now), stream=self.stream, by=by, asked_at=now, wanted=wanted))


def answer(spec: StreamSpec, looks: Looks, asked: Seen, *, now: Callable[[], float] = time.time) -> Seen:
    """Look at the state, and keep what was seen, or why there is nothing to see. Raises OSError."""
    try:
        done = _answered(asked, _look(spec, asked.wanted))
    except StreamwardenError as error:
        done = replace(asked, refusal=refusal(error))
    done = replace(done, answered_at=now())
    looks.put(done)
    return done


def _look(spec: StreamSpec, wanted: Wanted) -> Look[Shown] | Look[History] | Look[Difference]:
    chosen = Selection(operator=wanted.operator, variable=wanted.variable, keys=wanted.keys)
    if wanted.history:
        return looking.history(spec, chosen, last=BATCHES)
    if wanted.since is not None:
        return looking.diff(spec, chosen, before=wanted.since, after=wanted.batch, rows=ROWS)
    return looking.show(spec, chosen, batch=wanted.batch, rows=ROWS)


def _answered(asked: Seen, look: Look[Shown] | Look[History] | Look[Difference]) -> Seen:
    found = look.answer
    return replace(
        asked,
        table=look.table,
        batches=look.batches,
        committed_at=look.committed_at,
        shown=bounded(found) if isinstance(found, Shown) else None,
        history=bounded(found) if isinstance(found, History) else None,
        difference=bounded(found) if isinstance(found, Difference) else None,
    )
