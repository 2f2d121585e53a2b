"""Gathers what a look at state needs: a checkpoint that nobody changes, its batches, and the tables of its state.

Where state can be linked all of it is, before anything else. An object store or another disk has no links: there the
logs are read in place, and what the chosen batches need is copied.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamwarden.adapters.storage.files import can_link, checkpoint_of
from streamwarden.checkpoint.diagnosis.operator_names import infer_name
from streamwarden.checkpoint.diagnosis.state import diagnose_schemas, second_format
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, Damaged, batch_ids, list_or_empty
from streamwarden.checkpoint.formats.operators import operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.formats.state import FileKind, StateStore, state_stores
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import CheckpointError, CheckpointMissing
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.time_travel.batches import choose_batch
from streamwarden.lifecycle.time_travel.tables import StateTable, stores_of, tables_of
from streamwarden.services.auditing.gathering import Logs, gather
from streamwarden.services.auditing.work import work_folder
from streamwarden.services.forks.copying import hold
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of a checkpoint's state. `tables`: what a person looks at; `whole`: the stores, see `stores_of`."""

    stores: Sequence[StateStore]
    tables: tuple[StateTable, ...]
    whole: tuple[StateTable, ...]

    @property
    def in_memory(self) -> bool:
        """Whether a reader has a whole partition in its heap: the HDFS-backed state store."""
        kinds = {file.kind for store in self.stores for file in store.files}
        return bool(kinds & {FileKind.DELTA, FileKind.SNAPSHOT})

    @property
    def second_format(self) -> bool:
        """Whether the state files carry unique ids: checkpoint format 2."""
        return second_format(self.stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The checkpoint of a stream for a look at its state.

    Args:
        origin: the stream's own. folder: of the look, private.
        logs: of hard links that hold everything; of the stream's own checkpoint if it cannot be linked.
        kept: batches whose state can be read, ascending.
    """

    origin: Location
    folder: Path
    logs: Logs
    kept: tuple[int, ...]
    layout: Layout

    def for_reading(self, batches: Collection[int]) -> str:
        """URI of a checkpoint in which nobody changes the state after these batches. What cannot be linked is copied.

        Raises CheckpointError.
        """
        reads = self.logs.checkpoint
        if reads == self.origin:
            with _readable(self.origin):
                reads = hold(self.origin, self.folder, batches)
        return to_hadoop(reads.path)

    def batch(self, asked: int | None) -> int:
        """See `choose_batch`."""
        return choose_batch(self.kept, max(self.logs.commits, default=None), asked, self.origin.path)

    def committed_at(self, batch: int) -> float | None:
        """Unix seconds; None: unknown."""
        return self.logs.commits.get(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The batches whose state a checkpoint can still show, ascending, and the tables that it has."""

    batches: tuple[int, ...]
    tables: tuple[StateTable, ...]


def kept(spec: StreamSpec) -> Kept:
    """What can be looked at now. Reads the checkpoint in its place. Raises CheckpointError."""
    origin = checkpoint_of(spec)
    with _readable(origin):
        logs = gather(spec, origin)
        return Kept(batches=tuple(logs.readable_batches()), tables=_layout(origin, logs.stores).tables)


@contextmanager
def held(spec: StreamSpec) -> Iterator[Held]:
    """The stream's checkpoint, held until the block ends. Raises CheckpointError if there is no state to read."""
    origin = checkpoint_of(spec)
    with _readable(origin):
        commits = batch_ids(list_or_empty(origin / COMMITS))
        if not commits:
            _require_checkpoint(origin, spec)
            choose_batch((), None, None, origin.path)  # raises
    with work_folder(spec) as folder:
        with _readable(origin):
            linked = can_link(origin / COMMITS / str(max(commits)), folder)
            logs = gather(spec, hold(origin, folder) if linked else origin)
            layout = _layout(logs.checkpoint, logs.stores)
            kept = logs.readable_batches()
        _require_tables(spec, layout)
        yield Held(origin=origin, folder=folder, logs=logs, kept=tuple(kept), layout=layout)


def layout_of(spec: StreamSpec, checkpoint: Location) -> Layout:
    """The parts of the state in a checkpoint of the stream. Raises CheckpointError if there is none to read."""
    with _readable(checkpoint):
        layout = _layout(checkpoint, state_stores(checkpoint))
    _require_tables(spec, layout)
    return layout


def _require_tables(spec: StreamSpec, layout: Layout) -> None:
    if not layout.tables:
        raise CheckpointError(
            "the query keeps no state",
            expected="a query with an operator that keeps state",
            where=spec.checkpoint,
            next_step=f"`streamwarden inspect {spec.name}` shows what the checkpoint has",
        )


def _require_checkpoint(origin: Location, spec: StreamSpec) -> None:
    try:
        origin.names()
    except FileNotFoundError as error:
        raise CheckpointMissing(
            f"{spec.name} has no checkpoint yet: its query has not started",
            expected="a checkpoint",
            where=spec.checkpoint,
            next_step=f"run `streamwarden start {owner(spec.name)}`",
        ) from error


@contextmanager
def _readable(origin: Location) -> Iterator[None]:
    """Raise a CheckpointError for what cannot be read."""
    try:
        yield
    except (Damaged, OSError, ValueError, IndexError) as error:
        raise CheckpointError(
            f"the checkpoint cannot be read: {error}",
            expected="whole logs, metadata and state, which Spark does not purge meanwhile",
            where=origin.path,
            next_step="look at a newer batch; `streamwarden inspect` says whether the checkpoint is whole",
        ) from error


def _layout(checkpoint: Location, stores: Sequence[StateStore]) -> Layout:
    """The tables of all operators. Raises Damaged, OSError."""
    metadata = {}
    for operator in sorted({store.operator for store in stores}):
        where = operator_metadata_path(checkpoint, operator)
        if where is not None:
            metadata[operator] = read_operator_metadata(checkpoint, operator, where)
    schemas, _ = diagnose_schemas(checkpoint, stores, metadata)
    found: list[StateTable] = []
    whole: list[StateTable] = []
    for operator, own in sorted(schemas.items()):
        names = sorted({store.name for store in stores if store.operator == operator})
        known = metadata.get(operator)
        name = known.name if known else infer_name(names, own) or "unknown"
        found += tables_of(operator, name, known.variables if known else {})
        whole += stores_of(operator, name, names)
    return Layout(stores=stores, tables=tuple(found), whole=tuple(whole))
