"""What a Delta table no longer has of what its stream reads next.

The driver asks, in an environment without delta-rs. So only the commits of the log are read, and what a query reads of
the whole table at its beginning is left for Spark to miss.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamwarden.adapters.delta.log import versions
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.table_offsets import DeltaOffset, committed_end, delta_offset, table_offsets
from streamwarden.sources.delta.files import DeltaFiles


def missing_input(table: DeltaFiles, checkpoint: Location) -> Iterator[str]:
    """Commits after the newest committed batch; if none is missing, files of the planned batch. Raises CheckpointError,
    OSError."""
    begins = committed_end(checkpoint, delta_offset)
    newest = table.newest()
    if begins is None or begins.snapshot or newest is None:
        return
    kept = set(versions(table.root))
    gone = [version for version in range(begins.version, newest + 1) if version not in kept]
    yield from (f"version {version} of its log" for version in gone)
    if not gone:
        planned = _planned(checkpoint)
        files = table.between(begins, planned) if planned is not None and not planned.snapshot else []
        yield from (file.path for file in files if not is_file(Location(table.root.fs, file.path)))


def _planned(checkpoint: Location) -> DeltaOffset | None:
    """Where the batch ends that is planned and not committed; None: there is none."""
    position = log_position(checkpoint)
    if position.planned is None or position.gap == 0:
        return None
    return table_offsets(checkpoint, delta_offset).get(position.planned)
