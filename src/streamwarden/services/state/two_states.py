"""Compares the states of two checkpoints: every table of every operator, and every store to the byte.

Spark has two readers of state. The tables are read by the public one, row by row as the operators see them; the stores
by the one that Spark rewrites state with. So a row that one of them passes over is seen by the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.config.schema import load
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.time_travel.answers import Asked, Difference, Placement, Question
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.state.gathering import Layout, layout_of
from streamwarden.services.state.looking import ask
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAt:
    """The state in a checkpoint, which nobody changes meanwhile, after a batch. `partitions`: as its offsets say."""

    checkpoint: Location
    batch: int
    partitions: int

    @property
    def uri(self) -> str:
        return to_hadoop(self.checkpoint.path)


@dataclass(frozen=True, slots=True)
class Compared:
    """The difference of one table. A store (`TableKind.STORE`) has the keys by which its rows belong to partitions."""

    table: StateTable
    difference: Difference

    @property
    def same(self) -> bool:
        found = self.difference
        return not (found.appeared or found.vanished or found.changed)

    @property
    def words(self) -> str:
        """`operator 0 (dedupe), default: 0 keys appeared, 1 vanished, 0 changed`."""
        found = self.difference
        counts = f"{found.appeared:,} keys appeared, {found.vanished:,} vanished, {found.changed:,} changed"
        return f"{self.table.words}: {counts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two states. `misplaced`: rows before and after that are in a partition in which no task looks for their key."""

    tables: tuple[Compared, ...]
    misplaced: tuple[int, int]

    @property
    def different(self) -> tuple[Compared, ...]:
        return tuple(table for table in self.tables if not table.same)


def compare_states(spec: StreamSpec, before: StateAt, after: StateAt, *, sample: int = 20) -> Comparison:
    """The difference of each table and of each store, all in one reading process. Of HDFS-backed state, whose stores
    Spark reads in no other way, of each table alone.

    Raises:
        CheckpointError: the two do not have the same tables, or Spark cannot read one of them.
        ProcessError: there is no usable Java, or the reading process died.
    """
    layout = layout_of(spec, before.checkpoint)
    _require_same_tables(layout, layout_of(spec, after.checkpoint), after)
    whole = () if layout.in_memory else layout.whole
    tables = (*layout.tables, *whole)
    differences = [_difference(before, after, table, sample) for table in tables]
    placements = [_placement(state, store) for store in whole for state in (before, after)]
    with work_folder(spec) as folder:
        answers = ask(spec, folder, layout, [*differences, *placements], waits=True)
    found = [load(Difference, answer) for answer in answers[: len(tables)]]
    wrong = [load(Placement, answer).misplaced for answer in answers[len(tables) :]]
    return Comparison(
        tables=tuple(Compared(table, difference) for table, difference in zip(tables, found, strict=True)),
        misplaced=(sum(wrong[::2]), sum(wrong[1::2])),
    )


def _difference(before: StateAt, after: StateAt, table: StateTable, sample: int) -> Question:
    return Question(
        asked=Asked.DIFF,
        checkpoint=before.uri,
        later=after.uri,
        batches=(before.batch, after.batch),
        table=table,
        limit=sample,
    )


def _placement(state: StateAt, store: StateTable) -> Question:
    return Question(
        asked=Asked.PLACEMENT,
        checkpoint=state.uri,
        batches=(state.batch,),
        table=store,
        partitions=state.partitions,
    )


def _require_same_tables(before: Layout, after: Layout, where: StateAt) -> None:
    if (before.tables, before.whole) != (after.tables, after.whole):
        raise CheckpointError(
            f"the two states do not have the same tables: one has {_words(after.tables)}",
            expected=_words(before.tables),
            where=where.checkpoint.path,
            next_step="compare states of one query, of one version of its job",
        )


def _words(tables: Sequence[StateTable]) -> str:
    return "; ".join(table.words for table in tables)
