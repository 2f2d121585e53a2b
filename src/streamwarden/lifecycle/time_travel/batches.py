"""Which batches a checkpoint can still show: those whose logs and whose state files are all kept."""

from collections.abc import Sequence

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.plan import ranges


def choose_batch(kept: Sequence[int], newest: int | None, asked: int | None, where: str) -> int:
    """The batch that was asked for; by default the newest that is kept.

    Args:
        kept: batches whose state can be read, ascending; newest: the newest committed one.

    Raises CheckpointError, with the batches that are kept.
    """
    if newest is None:
        raise CheckpointError(
            "no batch was committed yet",
            expected="a committed batch",
            where=where,
            next_step="wait for the first commit",
        )
    if not kept:
        raise CheckpointError(
            f"the state of no batch can be read, although batch {newest} is committed",
            expected="a batch with its offsets, its commit and every state file that it needs",
            where=where,
            next_step="run `streamwarden inspect` on the checkpoint: it names the files that are missing",
        )
    if asked is None or asked in kept:
        return kept[-1] if asked is None else asked
    later = asked > newest
    raise CheckpointError(
        f"batch {asked} is not committed yet" if later else f"the state of batch {asked} is not kept any more",
        expected=f"one of the batches {ranges(list(kept))}",
        where=where,
        next_step="name one of them"
        + ("" if later else "; spark.sql.streaming.minBatchesToRetain says how many Spark keeps"),
    )
