"""Takes entries out of the manifest of an output folder, so that Spark writes their batches again.

The entries are kept in a folder beside the manifest, which no reader of the output opens. The data files stay, and no
entry lists them any more: a reader that honours the manifest does not see them.
"""

from datetime import UTC, datetime

from streamwarden.adapters.storage.moving import move
from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG, compactible_ids, compactible_name, list_or_empty
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.errors import CheckpointError


def set_aside(output: Location, batch: int, at: float) -> str:
    """Move the entries of the batches after `batch` out of the manifest; returns what was moved, empty if nothing was.

    The newest goes first: if the move is interrupted, the next launch finds the rest and moves it, too.

    Args:
        at: Unix seconds, names the folder.

    Raises CheckpointError if an entry is the only list of the files of earlier batches.
    """
    folder = output / SINK_LOG
    names = list_or_empty(folder)
    moved = [compactible_name(number, compact) for number, compact in compactible_ids(names) if number > batch]
    if not moved:
        return ""
    _require_whole(output, batch, moved)
    kept = output / f"{SINK_LOG}.{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}"
    for name in reversed(moved):
        for file in (name, f".{name}.crc"):
            if file in names:
                move(folder / file, kept / file)
    return f"{len(moved)} entries of the manifest were moved to {kept.path}"


def _require_whole(output: Location, batch: int, moved: list[str]) -> None:
    """Raises CheckpointError unless the entries up to `batch` still list everything that they wrote."""
    if batch < 0:
        return
    before = read_sink_manifest(output, batch, strict=True)
    if before is None or before.missing or before.damaged:
        raise CheckpointError(
            f"the manifest no longer has the entries up to batch {batch} by themselves: {moved[-1]} repeats them",
            expected=f"entries that list the files of the batches up to {batch}",
            where=(output / SINK_LOG).path,
            next_step=f"give the stream {NEW_PLACES}",
        )
