"""Another program that writes a stream's Iceberg table: pyiceberg, with a catalog that commits like a Hadoop catalog.
For drills; nothing of it changes a row."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.types import StringType

from streamwarden.adapters.iceberg.access import static_table
from streamwarden.adapters.iceberg.metadata import Snapshot, TableMetadata
from streamwarden.adapters.iceberg.table import HINT, METADATA, table_of
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.drills.tables import BatchCommit, Removed
from streamwarden.errors import CheckpointError, DrillError
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

MOST_REWRITTEN: Final = 64_000_000
"""Bytes of data files up to which a table is compacted: the rows are read into memory."""


class FolderCatalog(NoopCatalog):
    """Commits to one table as a Hadoop catalog does: the next `vN.metadata.json` is created, which only one writer can.

    It leaves `version-hint.text` alone: a reader looks for newer versions from there on, as after a writer that was
    killed before it wrote the hint. On a local disk Iceberg's own catalog looks whether a version is there and then
    renames, so that it may replace one of this catalog: then a commit of the drill is lost, and none of the stream.
    """

    def __init__(self, spec: StreamSpec) -> None:
        NoopCatalog.__init__(self, "streamwarden-drill")
        self._spec = spec

    def load(self) -> Table | None:
        """The table as it is now; None: there is none yet."""
        known = table_of(self._spec)
        return None if known is None else self._table(known)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Raises CommitFailedException if another writer was faster."""
        known = table_of(self._spec)
        if known is None:
            raise CommitFailedException("the table is gone")
        base = static_table(known, str(self._spec.sink.path), None).metadata
        for requirement in requirements:
            requirement.validate(base)
        if base.next_sequence_number() != table.metadata.next_sequence_number():
            raise CommitFailedException("another writer has staged a snapshot, which has the number of this one")
        made = update_table_metadata(base, updates, enforce_validation=False, metadata_location=known.file)
        file = Path(known.file).with_name(f"v{known.version + 1}.metadata.json")
        _create(file, made.model_dump_json().encode())
        return CommitTableResponse.model_validate({"metadata": made, "metadata-location": str(file)})

    def _table(self, known: TableMetadata) -> Table:
        """pyiceberg must not repeat a commit: an overwrite that is repeated removes what another writer has added since
        the rows were read. What is changed here of the metadata is not committed."""
        read = static_table(known, str(self._spec.sink.path), None)
        properties = {**read.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        metadata = read.metadata.model_copy(update={"properties": properties})
        return Table(read.name(), metadata, read.metadata_location, read.io, self)


def _create(file: Path, content: bytes) -> None:
    """Write a whole file under a name that no other writer has taken. Raises CommitFailedException if one has."""
    part = file.with_name(f".{uuid.uuid4()}.part")
    part.write_bytes(content)
    try:
        os.link(part, file)
    except FileExistsError as error:
        raise CommitFailedException(f"another writer has committed {file.name}") from error
    finally:
        part.unlink()


class IcebergWriter:
    """Implements `OtherWriter` for a table on this host."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._catalog = FolderCatalog(spec)

    def newest(self) -> str | None:
        known = table_of(self._spec)
        return None if known is None else str(known.current)

    def commit(self) -> bool:
        """A snapshot that adds no file."""

        def append(table: Table) -> bool:
            table.append(_no_rows(table))
            return True

        return self._try(append) is not None

    def compact(self) -> bool:
        """Overwrite a small table with its own rows."""
        return bool(self._try(_rewrite))

    def commit_of(self, batch: int, since: str | None) -> BatchCommit | None:
        known, query = table_of(self._spec), read_query_id(checkpoint_of(self._spec)) or ""
        own = None if known is None else known.batches([query]).get(batch)
        if known is None or own is None:
            return None
        history = list(known.history)
        before = history[history.index(own) + 1 :]
        return BatchCommit(read=str(since), made=str(own.id), others=_others(before, query, since))

    def clean(self) -> Removed:
        """Expire every snapshot but the newest, and delete the files in the table's folder that only the others need.
        A fork refuses Iceberg's own procedure (`gc.enabled`), which would delete those of its origin."""
        return self._try(self._clean) or Removed(data=(), log=(), versions=())

    def _clean(self, table: Table) -> Removed:
        current = table.metadata.current_snapshot_id
        old = [snapshot.snapshot_id for snapshot in table.metadata.snapshots if snapshot.snapshot_id != current]
        needed = _files(table, [] if current is None else [current])
        orphans = sorted(self._below(_files(table, old) - needed))
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()
        for file in orphans:
            file.unlink(missing_ok=True)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        log = tuple(file.name for file in orphans if file.parent.name == METADATA)
        data = tuple(file.name for file in orphans if file.parent.name != METADATA)
        return Removed(data=data, log=log, versions=tuple(map(str, old)))

    def _below(self, files: set[str]) -> list[Path]:
        folder = Path(str(self._spec.sink.path))
        return [path for file in files if (path := Path(of_hadoop(file))).is_relative_to(folder)]

    def lose_log_file(self) -> str | None:
        """The hint, which names a version of the table."""
        hint = Path(str(self._spec.sink.path)) / METADATA / HINT
        hint.unlink(missing_ok=True)
        hint.with_name(f".{HINT}.crc").unlink(missing_ok=True)
        return f"{METADATA}/{HINT}"

    def add_column(self, name: str) -> bool:
        def add(table: Table) -> bool:
            with table.update_schema() as update:
                update.add_column(name, StringType())
            return True

        return self._try(add) is not None

    def columns(self) -> Sequence[str]:
        return self._try(lambda table: table.schema().column_names) or []

    def _try(self, act: Callable[[Table], T]) -> T | None:
        """Act on the newest version; None: there is no table yet, or another writer was faster. Raises DrillError."""
        try:
            table = self._catalog.load()
            return None if table is None else act(table)
        except CommitFailedException:
            return None
        except (CheckpointError, OSError, ValueError, NotImplementedError) as error:
            raise DrillError(
                f"the Iceberg table cannot be written: {' '.join(str(error).split())[:300]}",
                expected="a table that pyiceberg can write",
                where=str(self._spec.sink.path),
                next_step="check the disk; if pyiceberg cannot write such a table, drill the stream with another fault",
            ) from error


def _others(before: Sequence[Snapshot], query: str, since: str | None) -> tuple[str, ...]:
    """The snapshots of other writers, oldest first, that came before a batch's and after `since`."""
    found = []
    for snapshot in before:
        if str(snapshot.id) == since:
            break
        found += [str(snapshot.id)] if snapshot.query != query else []
    return tuple(reversed(found))


def _no_rows(table: Table) -> pa.Table:
    return table.schema().as_arrow().empty_table()


def _rewrite(table: Table) -> bool:
    tasks = list(table.scan().plan_files())
    if len(tasks) < 2 or sum(task.file.file_size_in_bytes for task in tasks) > MOST_REWRITTEN:
        return False
    table.overwrite(table.scan().to_arrow())
    return True


def _files(table: Table, snapshots: Sequence[int]) -> set[str]:
    """Every file that these snapshots need."""
    found: set[str] = set()
    for number in snapshots:
        snapshot: Any = table.snapshot_by_id(number)
        manifests = snapshot.manifests(table.io)
        found |= {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}
        for manifest in manifests:
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found |= {entry.data_file.file_path for entry in entries}
    return found
