"""Rewrites the state of a stopped stream through Spark's own rewriter, into a copy that is verified.

The stream's checkpoint is copied without its state, and Spark writes the state into the copy. The copy has the same
batches. Both states are compared, every table and every store.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import log_position, offsets
from streamwarden.checkpoint.formats.state import SSTS
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.config.schema import load
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.plan import links
from streamwarden.lifecycle.surgery.rewriting import Found, Keys, Rewrite, Rewritten
from streamwarden.lifecycle.surgery.soundness import (
    Differences,
    choose_operator,
    deviations,
    require_between_batches,
    require_exact,
    require_found,
    require_rewritable,
)
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.exchanges.refusals import require_on_disk
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import survey
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.gathering import Layout, layout_of
from streamwarden.services.state.looking import ask
from streamwarden.services.state.two_states import StateAt, compare_states
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class Place:
    """The state of a stream, which can be rewritten. `operator`: a store of the one that has the keys; None: no key is
    taken out."""

    spec: StreamSpec
    checkpoint: Location
    layout: Layout
    operator: StateTable | None
    batch: int
    partitions: int

    @classmethod
    def of(cls, spec: StreamSpec, checkpoint: Location, layout: Layout, batch: int) -> Self:
        """Raises CheckpointError if it cannot be rewritten."""
        require_on_disk(spec)
        planned = offsets(checkpoint, batch)
        require_rewritable(planned, layout.whole, spec.checkpoint)
        return cls(spec, checkpoint, layout, None, batch, planned.shuffle_partitions or 1)

    @classmethod
    def stopped(cls, spec: StreamSpec) -> Self:
        """That of a stream that does not run. Raises CheckpointError."""
        checkpoint = checkpoint_of(spec)
        batch = require_between_batches(log_position(checkpoint), spec.name, spec.checkpoint)
        return cls.of(spec, checkpoint, layout_of(spec, checkpoint), batch)

    def with_operator(self, asked: int | None) -> Self:
        """Raises ConfigError if there is none such, or several."""
        return replace(self, operator=choose_operator(self.layout.whole, asked, self.spec.name))

    def ask(self, folder: Path, keys: Keys | None, read: str, into: str | None = None) -> Rewritten:
        """Let the process count the keys, or rewrite the state without them. Raises as `looking.ask`."""
        number = -1 if self.operator is None else self.operator.operator
        stores = tuple(str(store.variable) for store in self.layout.whole if store.operator == number)
        wanted = Rewrite(checkpoint=read, batch=self.batch, operator=number, stores=stores, keys=keys, into=into)
        (answer,) = ask(self.spec, folder, self.layout, [wanted], program="rewriting", waits=into is not None)
        return load(Rewritten, answer)

    def exchange(self, checkpoint: str, stamp: str, author: Author, *, subject: str, command: str) -> Exchange:
        """The exchange by which the copy takes the checkpoint's place. subject: begins with the operation's name."""
        return Exchange(
            operation=subject.partition(" ")[0],
            subject=subject,
            command=f"streamwarden state {command}",
            stream=self.spec.name,
            query_id=str(log_position(self.checkpoint).query_id),
            batch=self.batch,
            stamp=stamp,
            by=author.by,
            reason=author.reason,
            checkpoint=checkpoint,
        )

    def rewrite(self, path: str, keys: Keys | None) -> Found:
        """Write a copy to `path` and verify it. Raises CheckpointError unless its state is that without the keys;
        nothing is left then."""
        with self.copied(path) as copy:
            with work_folder(self.spec) as folder:
                done = self.ask(folder, keys, self.uri, to_hadoop(copy.path))
            if keys is not None:
                require_found(done.found, self.spec.checkpoint)
            number = None if self.operator is None else self.operator.operator
            self.require_exact(copy, lambda differences: deviations(differences, done, number))
        return done.found

    @property
    def uri(self) -> str:
        return to_hadoop(self.checkpoint.path)

    @contextmanager
    def copied(self, path: str) -> Iterator[Location]:
        """A copy of the checkpoint without its state, which the block fills. If it raises, nothing is left."""
        copy = open_path(path)
        try:
            _copy_without_state(self.checkpoint, copy)
            yield copy
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # what is wrong or half is of no use
            raise

    def require_exact(self, copy: Location, judge: Callable[[Differences], Sequence[str]]) -> None:
        """Raises CheckpointError if the state of the copy has something that `judge` names, or a row in another
        partition."""
        compared = compare_states(self.spec, self._at(self.checkpoint), self._at(copy))
        wrong = list(judge([(table.table, table.difference) for table in compared.tables]))
        before, after = compared.misplaced
        if after > before:
            wrong.append(f"{after - before} rows are in another partition")
        require_exact(wrong, self.spec.checkpoint)

    def _at(self, checkpoint: Location) -> StateAt:
        return StateAt(checkpoint=checkpoint, batch=self.batch, partitions=self.partitions)


def _copy_without_state(origin: Location, copy: Location) -> None:
    """The logs, and the operators' metadata and schemas: what Spark's rewriter needs of the checkpoint that it writes.
    No state of an earlier batch, which would still have the keys. Raises OSError."""
    whole = survey(origin, None)
    bare = replace(whole, stores=tuple(replace(store, files=(), other=_schemas(store.other)) for store in whole.stores))
    places = replace(Places.under(copy.path), checkpoint=copy.path)
    carry_out(links(bare, places, max(whole.commits)), origin.fs, None)


def _schemas(other: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in other.items() if not name.startswith(f"{SSTS}/")}
