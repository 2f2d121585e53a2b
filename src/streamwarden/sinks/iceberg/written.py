"""The data files that a range of batches wrote into an Iceberg table, from the snapshots of these batches: for an audit
of a stream that runs on.

A compaction rewrites rows into other files; the files of the batches stay on the storage until their snapshots are
expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from streamwarden.adapters.iceberg.access import data_files, static_table
from streamwarden.adapters.iceberg.metadata import Snapshot, TableMetadata
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import file_name, to_path, to_uri
from streamwarden.errors import VerificationError
from streamwarden.sinks.output import WrittenFiles
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

_PARQUET = "PARQUET"


def written_files(spec: StreamSpec, audited: Range) -> WrittenFiles:
    """The files of the audited batches. Raises CheckpointError, OSError, and VerificationError for batches whose
    snapshots were expired."""
    root = open_path(str(spec.sink.path), spec.storage.connection)
    wanted = audited.batches
    query, known = read_query_id(checkpoint_of(spec)) or "", table_of(spec)
    batches = {} if known is None else known.batches([query])
    absent = [batch for batch in wanted if batch not in batches]
    if absent and known is not None and not known.is_whole:
        raise _expired(spec, absent)
    added = [] if known is None else list(_added(spec, known, {batch: batches.get(batch) for batch in wanted}))
    files = [to_path(file.file_path) for file in added]
    lost = [file for file in files if not is_file(Location(root.fs, file))]
    twice = () if known is None else [batch for batch in known.repeated([query]) if batch in wanted]
    return WrittenFiles(
        uris=tuple(to_uri(file) for file in files if file not in lost),
        format="parquet",
        problems=(
            *(f"the table has no snapshot of the committed batch {batch}" for batch in absent),
            *(f"the table has the rows of batch {batch} more than once" for batch in twice),
            *(f"the snapshot of a batch names {file_name(file)}, which is not there" for file in lost),
        ),
    )


def _added(spec: StreamSpec, known: TableMetadata, wanted: Mapping[int, Snapshot | None]) -> Iterator[DataFile]:
    """The data files that the snapshots of these batches added."""
    table = static_table(known, str(spec.sink.path), spec.storage.connection)
    for snapshot in wanted.values():
        if snapshot is not None:
            yield from (_parquet(spec, file) for file in data_files(table, snapshot.id))


def _parquet(spec: StreamSpec, file: DataFile) -> DataFile:
    """Raises VerificationError for a file of another format."""
    if file.file_format.value != _PARQUET:
        raise VerificationError(
            f"the table has data files of the format {file.file_format.value}",
            expected="Parquet: an audit reads no other data files of a table",
            where=str(spec.sink.path),
            next_step="verify the stream by a drill with a twin, which reads every format of Iceberg",
        )
    return file


def _expired(spec: StreamSpec, absent: list[int]) -> VerificationError:
    return VerificationError(
        f"the table no longer has the snapshot of batch {absent[0]}",
        expected="the snapshot of each audited batch, not expired",
        where=str(spec.sink.path),
        next_step="audit newer batches, and keep snapshots for longer than an audit goes back",
    )
