"""Reads a stream's output, as an exactly-once reader must: through the sink's own manifest.

Spark's file sink lists in `_spark_metadata/N` the files that batch N wrote; every few batches one `N.compact` repeats
all that came before. A data file that no entry names is an orphan file, written by a batch that never committed: it is
counted, and not read.
"""

import os
from functools import partial
from pathlib import Path

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import FileSystem
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.errors import VerificationError
from streamwarden.sinks.files.data import PARQUET, DataFormat, read_files
from streamwarden.sinks.files.manifest import file_batches, read_manifest
from streamwarden.sinks.output import Output


def read_output(
    path: Path | str,
    *,
    connection: str | None = None,
    committed: int | None = None,
    first: int = 0,
    data_format: DataFormat = PARQUET,
) -> Output:
    """Read the output under `path`.

    Args:
        connection: to the object store that it is in; see `open_path`.
        committed: the query's newest committed batch: the manifest must have an entry for each batch up to it.
        first: first batch that the manifest must know (a fork's output may begin later than batch 0).

    A data file that cannot be read is a problem, and its rows are not in the output: Spark cannot read them either.
    Raises VerificationError if the folder is not there, the storage does not answer, or a manifest entry cannot be
    understood.
    """
    root = open_path(path, connection)
    try:
        on_disk = sorted(name for name, _ in root.walk(skip=_hidden) if data_format.names(name))
        manifest = read_manifest(root, committed, first)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VerificationError(
            "there is no output",
            expected=f"a folder of {data_format.name} files",
            where=root.path,
            next_step="let the stream commit a batch first",
        ) from error
    except OSError as error:
        raise VerificationError(
            f"the output cannot be read: {error}",
            expected=f"a folder of {data_format.name} files",
            where=root.path,
            next_step="check that the storage is reachable and the credentials are correct",
        ) from error
    if manifest is None:
        problems = []
        if committed is not None:
            problems.append(f"{committed + 1 - first} committed batches and no {SINK_LOG} in {root.path}")
        data = read_files(root, [(root / name).path for name in on_disk], data_format)
        problems += [_not_read(file, reason) for file, reason in data.unreadable]
        return Output(
            columns=data.columns, parts=data.parts, files=len(on_disk), problems=tuple(problems), types=data.types
        )
    missing = set(manifest.missing)
    present = [file for file in manifest.files if file not in missing]
    named = {_real(root.fs, file) for file in present}
    data = read_files(root, present, data_format)
    return Output(
        columns=data.columns,
        parts=data.parts,
        types=data.types,
        manifest=manifest,
        files=len(present),
        file_batches=partial(file_batches, root),
        orphans=tuple(name for name in on_disk if _real(root.fs, (root / name).path) not in named),
        problems=(
            *(f"the manifest has no entry for the committed batch {batch}" for batch in manifest.gaps),
            *(f"the manifest names {file_name(file)}, which is not there" for file in manifest.missing),
            *(_not_read(file, reason) for file, reason in data.unreadable),
        ),
    )


def _real(fs: FileSystem, path: str) -> str:
    return os.path.realpath(path) if isinstance(fs, LocalFiles) else path


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _not_read(file: str, reason: str) -> str:
    return f"the data file {file_name(file)} cannot be read, and its rows are lost: {reason}"
