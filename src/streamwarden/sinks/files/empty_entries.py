"""Gives the manifest of an output entries for batches that wrote nothing, as Spark does for a batch without rows.

A rewritten checkpoint has a batch that Spark did not execute. Without its entry Spark fails when it next compacts the
manifest, and a reader takes the manifest for damaged.
"""

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.compaction import next_compaction
from streamwarden.checkpoint.formats.layout import SINK_LOG, compactible_name
from streamwarden.checkpoint.formats.sink import SinkManifest, read_sink_manifest
from streamwarden.errors import CheckpointError


def add_empty(output: Location, batch: int) -> str:
    """Add the entries that lack up to `batch`; returns what was done, empty if none lacks. Raises CheckpointError if
    the manifest is not whole, OSError."""
    first = (whole_manifest(output).newest or 0) + 1
    for number in range(first, batch + 1):
        _add(output, whole_manifest(output), number)
    return f"batch {batch}, which has no rows, was entered in the manifest" if first <= batch else ""


def _add(output: Location, manifest: SinkManifest, batch: int) -> None:
    """The compact file of a batch that compacts repeats what is listed."""
    compact = next_compaction(manifest.compact, batch - 1) == batch
    lines = [line for entry in manifest.entries for line in entry.lines] if compact else []
    content = "\n".join([f"v{manifest.entries[-1].version}", *lines])
    (output / SINK_LOG / compactible_name(batch, compact)).write(content.encode())


def whole_manifest(output: Location) -> SinkManifest:
    """The manifest, to which an entry can be added. Raises CheckpointError."""
    manifest = read_sink_manifest(output, strict=True)
    if manifest is None or manifest.missing or manifest.damaged or not manifest.entries:
        raise CheckpointError(
            "the manifest of the output is not whole, so a batch cannot be added to it",
            expected="an entry for each batch, each naming files of the output",
            where=(output / SINK_LOG).path,
            next_step="run `streamwarden inspect` on the stream",
        )
    return manifest
