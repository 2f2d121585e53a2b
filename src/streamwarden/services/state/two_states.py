"""Compares the states of two checkpoints: every table of every operator, and every store to the byte.

Spark has two readers of state. The tables are read by the public one, row by row as the operators see them; the stores
by the one that Spark rewrites state with. So a row that one of them passes over is seen by the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.time_travel.answers import Asked, Difference, Placement, Question
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.state.gathering import layout_of
from streamwarden.services.state.looking import ask
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state in a checkpoint after a batch. Nobody changes this checkpoint meanwhile."""

    checkpoint: Location
    batch: int

    @property
    def uri(self) -> str:
        return f"file://{self.checkpoint.path}"


@dataclass(frozen=True, slots=True)
class Compared:
    """The difference of one table. A store (`TableKind.STORE`) has the keys by which its rows belong to partitions."""

    table: StateTable
    difference: Difference

    @property
    def same(self) -> bool:
        found = self.difference
        return not (found.appeared or found.vanished or found.changed) and found.rows_before == found.rows_after


def compare_states(spec: StreamSpec, before: StateAt, after: StateAt, *, sample: int = 20) -> list[Compared]:
    """The difference of each table and of each store. On HDFS-backed state, whose stores Spark reads no other way, of
    each table alone.

    Raises:
        CheckpointError: the two do not have the same tables, or Spark cannot read one of them.
        ProcessError: there is no usable Java, or the reading process died.
    """
    layout = layout_of(spec, before.checkpoint)
    tables = layout.tables if layout.in_memory else (*layout.tables, *layout.whole)
    other = layout_of(spec, after.checkpoint)
    if (other.tables, other.whole) != (layout.tables, layout.whole):
        raise _other_tables(after, layout.tables, other.tables)
    questions = [
        Question(
            asked=Asked.DIFF,
            checkpoint=before.uri,
            later=after.uri,
            batches=(before.batch, after.batch),
            table=table,
            limit=sample,
        )
        for table in tables
    ]
    with work_folder(spec) as folder:
        answers = ask(spec, folder, layout, questions, Difference)
    return [Compared(table, answer) for table, answer in zip(tables, answers, strict=True)]


def misplaced(spec: StreamSpec, states: Sequence[tuple[StateAt, int]]) -> list[int]:
    """For each state, with its number of partitions: how many rows are in a partition in which their key is not looked
    for. Raises as `compare_states`."""
    layout = layout_of(spec, states[0][0].checkpoint)
    questions = [
        Question(
            asked=Asked.PLACEMENT,
            checkpoint=state.uri,
            batches=(state.batch,),
            table=store,
            partitions=partitions,
        )
        for state, partitions in states
        for store in layout.whole
    ]
    with work_folder(spec) as folder:
        answers = ask(spec, folder, layout, questions, Placement)
    each = len(layout.whole)
    return [sum(answer.misplaced for answer in answers[each * i : each * (i + 1)]) for i in range(len(states))]


def _other_tables(after: StateAt, expected: Sequence[StateTable], found: Sequence[StateTable]) -> CheckpointError:
    return CheckpointError(
        f"the two states do not have the same tables: one has {'; '.join(table.words for table in found)}",
        expected="; ".join(table.words for table in expected),
        where=after.checkpoint.path,
        next_step="compare states of one query, of one version of its job",
    )
