"""The files that audited batches read, listed from the checkpoint and read again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.sources.audited import AUDIT, AskedSource, CannotBalance
from streamwarden.verification.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Folders = Mapping[str, Sequence[tuple[str, int]]]
"""Folder of a file source -> (URI of a file, batch that read it)."""


def files_of(folders: Sequence[str], checkpoint: Location, audited: Range) -> Folders:
    """Raises CheckpointError, OSError, Damaged."""
    files = {}
    for place, folder in enumerate(folders):
        log = file_source_log(checkpoint, place)
        files[folder.rstrip("/")] = [(uri, batch) for batch in audited.batches for uri in log.get(batch, ())]
    return files


def read_files(asked: AskedSource, folders: Folders) -> DataFrame:
    """The rows of the files, with the column AUDIT: the URI as Spark's readers show it."""
    from pyspark.sql import functions as f

    if asked.path is None:
        raise asked.unreadable()
    read = folders.get(asked.path.removeprefix("file://").rstrip("/"))
    if read is None:
        raise CannotBalance(f"the job reads {asked.path}, which its stream's file does not declare as a source")
    reader = asked.spark.read.format(asked.format or "parquet").options(**asked.options)
    if asked.schema is not None:
        reader = reader.schema(asked.schema)
    frame = reader.load([uri for uri, _ in read] or tempfile.mkdtemp())
    return frame.select("*", f.col("_metadata.file_path").alias(AUDIT))


def batches_of(folders: Folders) -> list[tuple[str, int]]:
    """(the column AUDIT, batch) of each file: Spark shows a local URI without an empty host."""
    return [(uri.replace("file:///", "file:/", 1), batch) for files in folders.values() for uri, batch in files]
