"""What an Iceberg table no longer has of what its stream reads next: the snapshot from which the query goes on."""

from collections.abc import Iterator

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.table_offsets import committed_end, iceberg_offset
from streamwarden.sources.iceberg.files import IcebergFiles


def missing_input(table: IcebergFiles, checkpoint: Location) -> Iterator[str]:
    """By the newest metadata file of the table alone. Raises CheckpointError, OSError."""
    begins = committed_end(checkpoint, iceberg_offset)
    if begins is not None and not table.is_kept(begins):
        yield f"snapshot {begins.snapshot}"
