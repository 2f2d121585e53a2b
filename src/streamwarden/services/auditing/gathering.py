"""Gathers the parts of a checkpoint that an audit reads: its logs, and the state files that are whole."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from streamwarden.adapters.storage.files import can_link, checkpoint_of
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import COMMITS, Damaged, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.logs import OffsetRecord, all_offsets, committed_times
from streamwarden.checkpoint.formats.state import StateFile, StateStore, state_stores
from streamwarden.checkpoint.integrity import has_tables
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.services.forks.copying import hold
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of a checkpoint as they were at one time.

    Args:
        commits: batch -> when it was committed, Unix seconds; None: unknown.
        stores: the state, if a checkpoint of hard links holds it; otherwise nothing is known of it.
    """

    checkpoint: Location
    commits: Mapping[int, float | None]
    offsets: Mapping[int, OffsetRecord]
    stores: Sequence[StateStore]

    def mark(self, batch: int) -> int:
        """The watermark of a batch, Unix milliseconds; 0 if its offsets are gone."""
        return self.offsets[batch].watermark_ms if batch in self.offsets else 0

    def can_begin_after(self, batch: int) -> bool:
        """Whether the state after this batch can be read."""
        return batch in self.commits and self._is_whole(batch, partial(has_tables, self.checkpoint))

    def readable_batches(self) -> list[int]:
        """The batches after which the state can be read, ascending. Opens each snapshot once."""
        known: dict[str, bool] = {}

        def once(store: StateStore, snapshot: StateFile) -> bool:
            path = join(store.folder, snapshot.name)
            if path not in known:
                known[path] = has_tables(self.checkpoint, store, snapshot)
            return known[path]

        return [batch for batch in sorted(self.commits) if batch in self.offsets and self._is_whole(batch, once)]

    def _is_whole(self, batch: int, can_load: Callable[[StateStore, StateFile], bool]) -> bool:
        partitions = self.offsets[batch].shuffle_partitions
        used = (store for store in self.stores if partitions is None or store.partition < partitions)
        loads = ((store, store.load(batch + 1)) for store in used)
        return all(load.complete and (load.snapshot is None or can_load(store, load.snapshot)) for store, load in loads)


def gather(spec: StreamSpec, held: Location | None) -> Logs:
    """The logs of the checkpoint of hard links, or of the stream's own if there is none."""
    checkpoint = held or checkpoint_of(spec)
    return Logs(
        checkpoint=checkpoint,
        commits=committed_times(checkpoint),
        offsets=all_offsets(checkpoint),
        stores=() if held is None else state_stores(checkpoint),
    )


def held_checkpoint(spec: StreamSpec, folder: Path) -> Location | None:
    """The checkpoint of hard links; None if there can be none, or nothing is committed. Raises VerificationError."""
    with readable(spec):
        checkpoint = checkpoint_of(spec)
        commits = batch_ids(list_or_empty(checkpoint / COMMITS))
        if not commits or not can_link(checkpoint / COMMITS / str(max(commits)), folder):
            return None
        return hold(checkpoint, folder)


def commit_times(spec: StreamSpec) -> list[float]:
    """Commit times of the batches whose commit is kept, as far as they are known; in their order. Raises
    VerificationError."""
    with readable(spec):
        return [at for at in committed_times(checkpoint_of(spec)).values() if at is not None]


def is_kept(spec: StreamSpec, audited: Range) -> bool:
    """Whether Spark has not purged the oldest of the audited batches. Raises CheckpointError, OSError."""
    offsets = all_offsets(checkpoint_of(spec))
    return max(audited.after, 0) in offsets


@contextmanager
def readable(spec: StreamSpec) -> Iterator[None]:
    """Raise a VerificationError for logs that cannot be read."""
    try:
        yield
    except (CheckpointError, Damaged, OSError, ValueError, IndexError) as error:
        raise VerificationError(
            f"the logs of the checkpoint or of the output cannot be read: {error}",
            expected="whole logs, as Spark wrote them",
            where=spec.checkpoint,
            next_step="run `streamwarden inspect` on it",
        ) from error
