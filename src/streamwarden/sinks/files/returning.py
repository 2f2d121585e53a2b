"""Puts an output folder back to the manifest of a savepoint. Nothing is deleted: later data files and the previous
manifest are moved to a folder whose name begins with `_`, so that no reader of the output opens them.
"""

import shutil
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import LocalFiles, link_or_copy
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.sink import SinkManifest, read_sink_manifest
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan

_PREPARED: Final = f"{SINK_LOG}.restored"


def plan_return(output: Location, restore: Exchange, manifest: Location) -> OutputPlan:
    """List the data files of later batches.

    Raises CheckpointError if the output is in an object store, or one of the manifests is not whole; OSError.
    """
    if not isinstance(output.fs, LocalFiles):
        raise CheckpointError(
            f"the output {output.path} is in an object store, where nothing is moved in one step",
            expected="an output on a disk of this host",
            where=output.path,
            next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path "
            "and a new output, in one change",
        )
    saved, now = _whole(manifest, restore.batch), _whole(output, None)
    kept = {file.path for file in saved.files}
    later = sorted({file.path for file in now.files} - kept)
    folder = Path(output.path)
    outside = next((path for path in later if not Path(path).is_relative_to(folder)), None)
    if outside is not None:
        raise _damaged(output, f"it names {outside}, which is not in the output")
    return OutputPlan(
        words=_words(len(later), _aside(folder, restore)),
        document={"later": [str(Path(path).relative_to(folder)) for path in later]},
    )


def copy_manifest(folder: Path, restore: Exchange, manifest: Location) -> None:
    """Copy the manifest up to the batch beside that of the output. Raises CheckpointError, OSError."""
    for left in folder.glob(f"{_PREPARED}-*"):  # by one that was killed before it began
        shutil.rmtree(left)
    prepared = _prepared(folder, restore)
    prepared.mkdir()
    for entry in _whole(manifest, restore.batch).entries:
        link_or_copy(manifest / SINK_LOG / entry.name, prepared / entry.name)


def return_output(folder: Path, restore: Exchange) -> str:
    """Move the later data files aside, then exchange the manifests. Raises OSError."""
    aside, prepared = _aside(folder, restore), _prepared(folder, restore)
    later = restore.output["later"]
    for name in later:
        if (folder / name).exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).rename(aside / name)
    if prepared.exists():
        aside.mkdir(exist_ok=True)
        if (folder / SINK_LOG).exists():
            (folder / SINK_LOG).rename(aside / SINK_LOG)
        prepared.rename(folder / SINK_LOG)
    return _words(len(later), aside)


def _words(later: int, aside: Path) -> str:
    return f"{later} data files of later batches and the previous manifest are moved to {aside}"


def _aside(folder: Path, restore: Exchange) -> Path:
    return folder / f"_set_aside-{restore.stamp}"


def _prepared(folder: Path, restore: Exchange) -> Path:
    return folder / f"{_PREPARED}-{restore.stamp}"


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
