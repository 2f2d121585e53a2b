"""Puts an output folder back to the manifest of a savepoint. Nothing is deleted: later data files and the previous
manifest are moved to a folder whose name begins with `_`, so that no reader of the output opens them.
"""

from typing import Final

from streamwarden.adapters.storage.moving import Swap, bring, move, remove_beside
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.sink import SinkManifest, read_sink_manifest
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan

_PREPARED: Final = ".restored"
"""Of the manifest's name, before the stamp."""


def plan_return(output: Location, restore: Exchange, manifest: Location) -> OutputPlan:
    """List the data files of later batches. Raises CheckpointError if one of the manifests is not whole, OSError."""
    saved, now = _whole(manifest, restore.batch), _whole(output, None)
    kept = {file.path for file in saved.files}
    later = sorted({file.path for file in now.files} - kept)
    folder = f"{output.path.rstrip('/')}/"
    outside = next((path for path in later if not path.startswith(folder)), None)
    if outside is not None:
        raise _damaged(output, f"it names {outside}, which is not in the output")
    return OutputPlan(
        words=_words(len(later), _aside(output, restore)),
        document={"later": [path.removeprefix(folder) for path in later]},
    )


def copy_manifest(output: Location, restore: Exchange, manifest: Location) -> None:
    """Copy the manifest up to the batch beside that of the output. Raises CheckpointError, OSError."""
    remove_beside(output / SINK_LOG, _PREPARED)  # left by one that was killed before it began
    prepared = _prepared(output, restore)
    for entry in _whole(manifest, restore.batch).entries:
        bring(manifest / SINK_LOG / entry.name, prepared / entry.name)


def return_output(output: Location, restore: Exchange) -> str:
    """Move the later data files aside, then exchange the manifests. Raises OSError."""
    aside = _aside(output, restore)
    later = restore.output["later"]
    for name in later:
        move(output / name, aside / name)
    Swap(live=output / SINK_LOG, prepared=_prepared(output, restore), aside=aside / SINK_LOG).carry_out()
    return _words(len(later), aside)


def _words(later: int, aside: Location) -> str:
    return f"{later} data files of later batches and the previous manifest are moved to {aside.path}"


def _aside(output: Location, restore: Exchange) -> Location:
    return output / f"_set_aside-{restore.stamp}"


def _prepared(output: Location, restore: Exchange) -> Location:
    return output / f"{SINK_LOG}{_PREPARED}-{restore.stamp}"


def _whole(output: Location, batch: int | None) -> SinkManifest:
    """The manifest as of a batch, or of its newest entry. Raises CheckpointError."""
    manifest = read_sink_manifest(output, batch)
    if manifest is None:
        raise _damaged(output, "it is gone")
    if manifest.missing or manifest.damaged:
        raise _damaged(output, f"entry {manifest.damaged[0] if manifest.damaged else manifest.missing[0]}")
    return manifest


def _damaged(output: Location, what: str) -> CheckpointError:
    return CheckpointError(
        f"the manifest of the output is not whole, so it is not known which files are of later batches: {what}",
        expected="an entry for each batch, each naming files of the output",
        where=(output / SINK_LOG).path,
        next_step="run `streamwarden inspect` on the stream; fork the savepoint (`streamwarden savepoint fork`)",
    )
