"""The data files that a range of batches wrote, from the manifest: for an audit of a stream that runs on."""

from collections.abc import Mapping

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.sink import SinkFile, SinkManifest, read_sink_manifest
from streamwarden.checkpoint.formats.uris import file_name, to_uri
from streamwarden.sinks.output import WrittenFiles
from streamwarden.verification.comparing.balance import Range


def written_files(root: Location, audited: Range, began: float | None, options: Mapping[str, str]) -> WrittenFiles:
    """The files of the output folder `root`.

    Args:
        began: when the batch before the audited ones was committed, Unix seconds.
        options: of Spark's writer.

    Raises OSError.
    """
    manifest = read_sink_manifest(root, audited.upto)
    if manifest is None:
        return WrittenFiles(problems=(f"the output has no {SINK_LOG}, which lists the files of the committed batches",))
    named = _files_of(manifest, audited, began)
    sizes = {file.path: _size(root, file.path) for file in named}
    there = [path for path, size in sizes.items() if size is not None]
    lost = [path for path, size in sizes.items() if size is None]
    cut = [file for file in named if sizes[file.path] not in (None, file.size) and file.size is not None]
    gaps = [batch for batch in manifest.missing if batch > audited.after]
    return WrittenFiles(
        uris=tuple(to_uri(path) for path in there),
        options=options,
        problems=(
            *(f"the manifest has no entry for the committed batch {batch}" for batch in gaps),
            *(f"the manifest's entry {name} is damaged: {why}" for name, why in manifest.damaged),
            *(f"the manifest names {file_name(path)}, which is not there" for path in lost),
            *(
                f"the data file {file_name(file.path)} has not the size in the manifest ({file.size:,} bytes)"
                for file in cut
            ),
        ),
    )


def _files_of(manifest: SinkManifest, audited: Range, began: float | None) -> list[SinkFile]:
    """The files that the audited batches added.

    A compact entry does not say which batch a file belongs to. A file of a later batch was written after the batch
    before the audited ones was committed.

    Args:
        began: when the batch before the audited ones was committed, Unix seconds.
    """
    if audited.after < 0:
        return list(manifest.files)
    files = []
    for entry in manifest.entries:
        for file in entry.files:
            own = entry.batch > audited.after
            if entry.compact and own and began is not None:
                own = file.modified_ms > began * 1000
            if own:
                files.append(file)
    return files


def _size(root: Location, path: str) -> int | None:
    """Bytes of a file; None if it is not there."""
    try:
        found = Location(root.fs, path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if found.is_dir else found.size
