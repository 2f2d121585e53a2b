"""Finds the newest metadata file of an Iceberg table on a disk or in an object store. It needs neither Spark nor
pyiceberg."""

import gzip
import re
from typing import Final

from streamwarden.adapters.iceberg.metadata import TableMetadata, parsed
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged, list_or_empty
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import StreamSpec

METADATA: Final = "metadata"
HINT: Final = "version-hint.text"
"""Names a version, from which a reader looks for newer ones: after a kill it may be older than the newest."""

_NAME: Final = re.compile(r"v([0-9]+)(\.gz)?\.metadata\.json(\.gz)?")

ATTEMPTS: Final = 3
"""A writer may remove old metadata files between the listing and the reading."""


def table_of(spec: StreamSpec) -> TableMetadata | None:
    """The table of a stream's sink, as `table_in`."""
    return table_in(str(spec.sink.path), spec.storage.connection)


def table_in(path: str, connection: str | None) -> TableMetadata | None:
    """The table in a folder; None if it has not been made yet.

    Raises CheckpointError if its metadata cannot be understood, OSError if the storage does not answer.
    """
    root = open_path(path, connection)
    try:
        return newest(root)
    except Damaged as error:
        raise CheckpointError(
            str(error),
            expected="the metadata of an Iceberg table of a Hadoop catalog",
            where=root.path,
            next_step="restore the file from a copy, or take the newest version that can be read for the table's",
        ) from error


def newest(root: Location) -> TableMetadata | None:
    """The newest metadata in the folder of a table; None if there is none. Raises Damaged, OSError."""
    for attempt in range(1, ATTEMPTS + 1):
        versions = {int(match[1]): name for name in list_or_empty(root / METADATA) if (match := _NAME.fullmatch(name))}
        if not versions:
            return None
        file = root / METADATA / versions[max(versions)]
        try:
            return _read(file, max(versions))
        except FileNotFoundError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _read(file: Location, version: int) -> TableMetadata:
    content = file.read()
    if ".gz" in file.path.rpartition("/")[2]:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise Damaged(f"{file.path} is not whole: {error}") from error
    return parsed(content, file.path, version)
