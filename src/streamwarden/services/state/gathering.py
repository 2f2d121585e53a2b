"""Gathers what a look at state needs: a checkpoint of hard links, the batches it can show, the tables of its state."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamwarden.adapters.storage.files import LocalFiles, checkpoint_of
from streamwarden.checkpoint.diagnosis.operator_names import infer_name
from streamwarden.checkpoint.diagnosis.state import diagnose_schemas
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, Damaged, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.operators import operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.formats.state import FileKind, StateStore
from streamwarden.errors import CheckpointError, CheckpointMissing
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.time_travel.batches import choose_batch
from streamwarden.lifecycle.time_travel.tables import StateTable, tables_of
from streamwarden.services.auditing.gathering import Logs, gather
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.forks.copying import hold
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A checkpoint that Spark cannot purge while it is read.

    Args:
        folder: of the look, private. where: the stream's own checkpoint.
        kept: batches whose state can be read, ascending.
    """

    folder: Path
    where: str
    logs: Logs
    kept: tuple[int, ...]
    tables: tuple[StateTable, ...]

    @property
    def uri(self) -> str:
        return f"file://{self.logs.checkpoint.path}"

    @property
    def in_memory(self) -> bool:
        """Whether a reader has a whole partition in its heap: the HDFS-backed state store."""
        kinds = {file.kind for store in self.logs.stores for file in store.files}
        return bool(kinds & {FileKind.DELTA, FileKind.SNAPSHOT})

    def batch(self, asked: int | None) -> int:
        """See `choose_batch`."""
        return choose_batch(self.kept, max(self.logs.commits, default=None), asked, self.where)

    def committed_at(self, batch: int) -> float | None:
        """Unix seconds; None: unknown."""
        return self.logs.commits.get(batch)


@contextmanager
def held(spec: StreamSpec) -> Iterator[Held]:
    """The stream's checkpoint, held until the block ends. Where it cannot be linked it is copied.

    Raises CheckpointError if there is no state that can be read, or it is in an object store.
    """
    checkpoint = checkpoint_of(spec)
    if not isinstance(checkpoint.fs, LocalFiles):
        raise CheckpointError(
            "the checkpoint is in an object store",
            expected="a checkpoint on a disk of this host: its state files are linked, so that Spark cannot purge them",
            where=spec.checkpoint,
            next_step="`streamwarden inspect` shows its batches, its state stores and their sizes",
        )
    if not Path(checkpoint.path).is_dir():
        raise CheckpointMissing(
            f"{spec.name} has no checkpoint yet: its query has not started",
            expected="a checkpoint",
            where=spec.checkpoint,
            next_step=f"run `streamwarden start {owner(spec.name)}`",
        )
    if not batch_ids(list_or_empty(checkpoint / COMMITS)):
        choose_batch((), None, None, spec.checkpoint)  # raises
    with work_folder(spec) as folder:
        try:
            logs = gather(spec, hold(checkpoint, folder))
            tables = _tables(logs.checkpoint, logs.stores)
            kept = tuple(
                batch for batch in sorted(logs.commits) if batch in logs.offsets and logs.can_begin_after(batch)
            )
        except (Damaged, OSError, ValueError, IndexError) as error:
            raise CheckpointError(
                f"the checkpoint cannot be read: {error}",
                expected="whole logs and metadata, as Spark wrote them",
                where=spec.checkpoint,
                next_step="run `streamwarden inspect` on it",
            ) from error
        if not tables:
            raise CheckpointError(
                "the query keeps no state",
                expected="a query with an operator that keeps state",
                where=spec.checkpoint,
                next_step=f"`streamwarden inspect {spec.name}` shows what the checkpoint has",
            )
        yield Held(folder=folder, where=spec.checkpoint, logs=logs, kept=kept, tables=tables)


def _tables(checkpoint: Location, stores: Sequence[StateStore]) -> tuple[StateTable, ...]:
    """The tables of all operators. Raises Damaged, OSError."""
    metadata = {}
    for operator in sorted({store.operator for store in stores}):
        where = operator_metadata_path(checkpoint, operator)
        if where is not None:
            metadata[operator] = read_operator_metadata(checkpoint, operator, where)
    schemas, _ = diagnose_schemas(checkpoint, stores, metadata)
    found: list[StateTable] = []
    for operator, own in sorted(schemas.items()):
        if operator in metadata:
            found += tables_of(operator, metadata[operator].name, metadata[operator].variables)
        else:
            names = [store.name for store in stores if store.operator == operator]
            found += tables_of(operator, infer_name(names, own) or "unknown", {})
    return tuple(found)
