"""What may be rewritten at all, and what the result has to be. Pure.

Spark's rewriter gives each row with the key by which Spark sends rows to partitions: the fields that the job groups,
joins or drops duplicates by. Everything that an operator keeps of a key has it: values, timers, both sides of a join,
indexes of times to live, lengths of lists. So a key that is taken out by it leaves nothing behind. The exceptions are
refused here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streamwarden.checkpoint.formats.logs import LogPosition, OffsetRecord
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.surgery.rewriting import Found, Rewritten
from streamwarden.lifecycle.time_travel.answers import Difference
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "RocksDBStateStoreProvider"
_JOIN_FORMAT: Final = "spark.sql.streaming.join.stateFormatVersion"
_JOIN: Final = "symmetricHashJoin"
_REWRITABLE_JOINS: Final = ("1", "2", "3")
"""In format 4 the key of Spark's rewriter has the event time beside the fields of the join, and what it writes cannot
be read any more (Spark 4.3.0)."""


def require_rewritable(planned: OffsetRecord, stores: Sequence[StateTable], where: str) -> None:
    """Raises CheckpointError for a state that Spark's rewriter cannot rewrite rightly.

    Args:
        planned: the newest batch; stores: of all operators, because it rewrites all of them.
    """
    provider = planned.conf.get(_PROVIDER, "")
    joins = planned.conf.get(_JOIN_FORMAT, _REWRITABLE_JOINS[0])
    if provider.rpartition(".")[2] != _ROCKSDB:
        raise _not_rewritable(
            f"it is in {provider.rpartition('.')[2] or 'a state store that the checkpoint does not name'}, and Spark "
            "rewrites states of RocksDB alone",
            where,
        )
    if joins not in _REWRITABLE_JOINS and any(store.name == _JOIN for store in stores):
        raise _not_rewritable(f"it has a join in state format {joins}, which Spark's rewriter damages", where)


def _not_rewritable(why: str, where: str) -> CheckpointError:
    return CheckpointError(
        f"the state cannot be rewritten: {why}",
        expected="a state in RocksDB, of operators whose rows all name their key",
        where=where,
        next_step="if it is about a key, let it expire by the watermark or a time to live, or begin anew with a new "
        "checkpoint path and a new output, in one change, from input without the key",
    )


def require_between_batches(position: LogPosition, stream: str, where: str) -> int:
    """The newest committed batch. Raises CheckpointError if none is, or another one was planned: its output may be
    there already, made from the state as it was."""
    if position.committed is None:
        raise CheckpointError(
            "no batch was committed yet",
            expected="a state",
            where=where,
            next_step=f"run `streamwarden start {stream}`",
        )
    if position.gap:
        raise CheckpointError(
            f"batch {position.planned} is planned and not committed: it may have written rows from the state as it is",
            expected="a stream that was stopped between two batches",
            where=where,
            next_step=f"start {stream}, let it commit, and stop it with `streamwarden stop {stream}`",
        )
    return position.committed


def choose_operator(stores: Sequence[StateTable], asked: int | None, where: str) -> StateTable:
    """One store of the operator that was asked for. Raises ConfigError, with those that there are, unless it is one."""
    operators = {store.operator: store for store in stores}
    matching = [store for number, store in operators.items() if asked in (None, number)]
    if len(matching) == 1:
        return matching[0]
    raise ConfigError(
        f"the state has no operator {asked}" if not matching else "several operators keep state",
        expected="one of: " + "; ".join(f"--operator {number} ({store.name})" for number, store in operators.items()),
        where=where,
        next_step="name one; to take a key out of several operators, run the command once for each",
    )


def require_found(found: Found, where: str) -> None:
    """Raises CheckpointError if there is nothing to delete."""
    if not found.keys:
        raise CheckpointError(
            "the state has no such key",
            expected=f"a key of the state, by its fields {', '.join(found.fields)}",
            where=where,
            next_step="`streamwarden state show` shows keys that there are, and how values are written",
        )


def deviations(
    differences: Iterable[tuple[StateTable, Difference]], rewritten: Rewritten, operator: int | None
) -> tuple[str, ...]:
    """What the rewritten state has otherwise than the old one without the keys; empty: it is exactly that.

    None of the keys is left, and in each store as many keys vanished as were found in it: so those vanished, and no
    others.

    Args:
        differences: of all tables and all stores of all operators.
        operator: that had the keys; None: nothing may be gone.
    """
    assert rewritten.left is not None  # it was rewritten
    left = [f"{part.rows} rows of the keys are left in {part.family} of {part.store}" for part in rewritten.left.parts]
    wrong = [
        f"{table.words}: {found.appeared} keys appeared, {found.vanished} vanished, {found.changed} changed"
        for table, found in differences
        if found.appeared or found.changed or not _rightly_vanished(table, found, rewritten.found.by_store, operator)
    ]
    return (*left, *wrong)


def _rightly_vanished(table: StateTable, found: Difference, by_store: Mapping[str, int], operator: int | None) -> bool:
    """A key of a table may be more than the key by which Spark partitions, as of sessions: a store has the latter."""
    if table.operator != operator:
        return not found.vanished
    return table.kind is not TableKind.STORE or found.vanished == by_store.get(str(table.variable), 0)


def require_exact(wrong: Sequence[str], where: str) -> None:
    """Raises CheckpointError for a rewritten state with deviations."""
    if wrong:
        raise CheckpointError(
            f"the rewritten state is not the old one without the keys, and nothing was changed: {'; '.join(wrong)}",
            expected="exactly the named keys gone, and every other row as it was",
            where=where,
            next_step="report this with the checkpoint's operators (`streamwarden inspect`): the copy was removed",
        )
