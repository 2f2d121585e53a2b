"""The files that audited batches read, listed from the checkpoint and read again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import of_hadoop, to_hadoop, to_path
from streamwarden.lifecycle.location import same_place
from streamwarden.sources.audited import AUDIT, AskedSource, CannotBalance, load_exactly
from streamwarden.verification.comparing.balance import Range

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
    read = files_in(folders, asked.path)
    if read is None:
        raise CannotBalance(f"the job reads {asked.path}, which its stream's file does not declare as a source")
    reader = asked.spark.read.format(asked.format or "parquet").options(**asked.options)
    if asked.schema is not None:
        reader = reader.schema(asked.schema)
    if _has_partitions(asked.path, read):
        reader = reader.option("basePath", asked.path)
    frame = load_exactly(reader, [uri for uri, _ in read]) if read else reader.load(to_hadoop(tempfile.mkdtemp()))
    return frame.select("*", f.col("_metadata.file_path").alias(AUDIT))


def files_in(folders: Folders, named: str) -> Sequence[tuple[str, int]] | None:
    """The files of the folder that a job names to Spark, by a path, a URI, or a URL without host; None: no folder of
    the stream."""
    place = of_hadoop(named)
    return next((files for folder, files in folders.items() if same_place(folder, place)), None)


def _has_partitions(folder: str, read: Sequence[tuple[str, int]]) -> bool:
    """Whether subfolders of the folder (day=1) are columns, whose values Spark takes from the paths below it."""
    root = of_hadoop(folder).rstrip("/") + "/"
    paths = [to_path(uri) for uri, _ in read]
    below = [path.removeprefix(root).rpartition("/")[0] for path in paths if path.startswith(root)]
    return len(below) == len(paths) and any("=" in subfolder for subfolder in below)


def batches_of(folders: Folders) -> list[tuple[str, int]]:
    """(the column AUDIT, batch) of each file: Spark shows a local URI without an empty host."""
    return [(uri.replace("file:///", "file:/", 1), batch) for files in folders.values() for uri, batch in files]
