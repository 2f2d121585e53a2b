"""Decides whether the state of a stream can be repartitioned, and whether a repartitioned one is right. Pure.

Spark fixes the number of partitions in the offset log. Its own rewriter adds a batch to both logs: the state of the
newest committed batch in other partitions, with the offsets and the watermark of that batch. It refuses some states,
and some it rewrites wrongly: of an operator without a key it puts the one row where the query does not look for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.checkpoint.diagnosis.operator_names import single_partition
from streamwarden.checkpoint.diagnosis.partitions import ROCKSDB
from streamwarden.checkpoint.diagnosis.report import CheckpointReport
from streamwarden.checkpoint.formats.logs import SHUFFLE_PARTITIONS, OffsetRecord
from streamwarden.errors import CheckpointError

_ANEW: Final = "begin anew with a new checkpoint path and a new output, in one change"
_NEXT: Final = f"keep the number of partitions, or {_ANEW}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """Args:
    batch: the newest committed one; the repartitioned state is that of `batch` + 1.
    """

    stream: str
    query_id: str
    batch: int
    before: int
    after: int

    @property
    def subject(self) -> str:
        """What was asked for, in the journal."""
        return subject(self.after)


def subject(partitions: int) -> str:
    """Names the request for this number of partitions, in the journal of an exchange."""
    return f"repartition to {partitions}"


def plan(report: CheckpointReport, stream: str, partitions: int) -> Repartition:
    """The repartition of a stopped stream. Raises CheckpointError if it is not possible."""
    obstacle = next(_obstacles(report, partitions), None)
    if obstacle is not None:
        observed, expected, next_step = obstacle
        raise CheckpointError(
            f"the state of {stream} cannot be repartitioned: {observed}",
            expected=expected,
            where=report.path,
            next_step=next_step,
        )
    position = report.position
    assert position.query_id is not None  # with a committed batch and a whole checkpoint there is one
    assert position.committed is not None
    assert report.shuffle_partitions is not None
    return Repartition(
        stream=stream,
        query_id=position.query_id,
        batch=position.committed,
        before=report.shuffle_partitions,
        after=partitions,
    )


def _obstacles(report: CheckpointReport, partitions: int) -> Iterator[tuple[str, str, str]]:
    """What was observed, what is expected, and the way on; the gravest first."""
    position, now = report.position, report.shuffle_partitions
    if position.committed is None or position.query_id is None:
        yield "no batch is committed yet", "a committed batch", "set `state.shuffle_partitions` before the first start"
        return
    if not report.operators:
        yield "the query keeps no state", "an operator that keeps state", "set `state.shuffle_partitions`, and restart"
        return
    if now is None or any(operator.inferred or operator.name is None for operator in report.operators):
        yield (
            "the checkpoint does not name its operators, as Spark has done since 4.0",
            "the metadata of each operator, which a newer Spark writes with its first batch",
            "start the stream with this Spark, let it commit a batch, stop it, and try again",
        )
    elif now == partitions:
        yield f"it has {now} partitions already", "another number", "nothing has to be done"
    if report.provider != ROCKSDB:
        yield (
            f"it is kept by {report.provider}, and Spark rewrites the state of RocksDB alone",
            "the state store RocksDB (`state.backend: rocksdb`)",
            _NEXT,
        )
    for operator in report.operators:
        if single_partition(operator.schemas):
            yield (
                f"operator {operator.operator} ({operator.name}) has no key and always one partition: Spark would put "
                "its row into another partition than the one that the query reads, and begin it anew without an error",
                "operators with a key",
                _NEXT,
            )


def require_same_plan(before: OffsetRecord, after: OffsetRecord, wanted: Repartition, where: str) -> None:
    """Raises CheckpointError unless the added batch reads nothing, and differs in the number of partitions alone."""
    conf = {**before.conf, SHUFFLE_PARTITIONS: str(wanted.after)}
    if replace(before, batch=after.batch, conf=conf) != after:
        raise wrong(f"offsets/{after.batch} is not offsets/{before.batch} with {wanted.after} partitions", where)


def require_placed(misplaced: Sequence[int], wanted: Repartition, where: str) -> None:
    """Raises CheckpointError if rows are in a partition where the query does not look for them, or if they are laid out
    by another rule than that of keys.

    Args:
        misplaced: rows before and after.
    """
    before, after = misplaced
    if before:
        raise wrong(f"{before:,} rows of the present state are not in the partition of their key", where)
    if after:
        raise wrong(f"{after:,} rows are not in the partition of their key, of {wanted.after}", where)


def wrong(what: str, where: str) -> CheckpointError:
    """The error for a rewritten state that is not the state from which it was made. Nothing was changed then."""
    return CheckpointError(
        f"Spark's rewritten state is not the one that the stream has, and was discarded: {what}",
        expected="the same rows in other partitions",
        where=where,
        next_step=f"start the stream as it was, which nothing has changed; {_NEXT}; and report this",
    )
