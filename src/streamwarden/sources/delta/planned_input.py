"""What Spark would find out one by one is said before the query starts: what the table no longer has of the batch that
is planned and not committed, or of those that come next.

The driver looks, in an environment without delta-rs. So it reads the commits of the log alone, and what a query reads
of the whole table at its beginning is left for Spark to miss.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from streamwarden.adapters.delta.log import versions
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.table_offsets import DeltaOffset, delta_offset, table_offsets
from streamwarden.errors import CheckpointError, TableInputGone
from streamwarden.lifecycle.failures.causes import TABLE_INPUT_GONE
from streamwarden.sources.delta.files import DeltaFiles
from streamwarden.stream.spec import StreamSpec

_NAMED: Final = 3
"""Files that the error names."""


def require_planned_input(table: DeltaFiles, spec: StreamSpec) -> None:
    """Raises TableInputGone if a commit behind the newest committed batch is gone, or a file of the planned one."""
    with contextlib.suppress(CheckpointError, OSError):  # Spark meets it, and its reader reports it
        missing = list(islice(_missing(table, spec), _NAMED))
        if missing:
            raise TableInputGone(
                f"the table {table.root.path} no longer has what the stream reads next: {', '.join(missing)}",
                expected="the commits and data files of a table until every stream that reads it has read them",
                where=f"stream {spec.name}",
                next_step=TABLE_INPUT_GONE.next_step,
            )


def _missing(table: DeltaFiles, spec: StreamSpec) -> Iterator[str]:
    """Nothing if the stream accepts the loss (`failOnDataLoss: "false"`)."""
    options = {name.lower(): value.lower() for name, value in spec.source.options.items()}
    if options.get("failondataloss") == "false":
        return
    checkpoint = checkpoint_of(spec)
    begins = _committed(checkpoint)
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


def _committed(checkpoint: Location) -> DeltaOffset | None:
    """Where the newest committed batch ends."""
    batch = log_position(checkpoint).committed
    return None if batch is None else table_offsets(checkpoint, delta_offset).get(batch)


def _planned(checkpoint: Location) -> DeltaOffset | None:
    """Where the batch ends that is planned and not committed; None: there is none."""
    position = log_position(checkpoint)
    if position.planned is None or position.gap == 0:
        return None
    return table_offsets(checkpoint, delta_offset).get(position.planned)
