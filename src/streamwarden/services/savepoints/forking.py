"""Forks a stream from a savepoint, with the machinery that makes the forks of drills."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.forks.files import require_empty
from streamwarden.services.forks.forks import fork
from streamwarden.services.forks.gathering import SavedOrigin
from streamwarden.services.forks.scripts import is_script
from streamwarden.services.forks.spec import run_name
from streamwarden.services.forks.working_folder import in_working_folder
from streamwarden.services.savepoints.folders import in_use
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.stream.spec import StreamSpec

FORK: Final = "fork"


def fork_from(spec: StreamSpec, savepoint: Savepoint, into: Path) -> Fork:
    """A fork of the stream that continues after the savepoint's batch, ready to run.

    Args:
        into: folder, absent or empty, that gets `fork` with checkpoint, output and input, and the folder in which the
            job runs.

    Raises CheckpointError if the savepoint is not as it was saved, or the stream cannot be forked.
    """
    require_forkable(spec, into)
    savepoints = Savepoints.of(spec)
    place = savepoints.place(savepoint.id)
    places = Places.under(place.path)
    saved = SavedOrigin(
        checkpoint=places.checkpoint,
        output=places.output,
        written_as=savepoint.checkpoint,
        batch=savepoint.batch,
    )
    with in_use(place):
        require_whole(savepoints, savepoint)
        made = fork(spec, into=into / FORK, saved=saved)
    named = replace(made.spec, name=run_name(spec.name, str(into)))
    return replace(made, spec=in_working_folder(named, spec, into))


def require_forkable(spec: StreamSpec, into: Path) -> None:
    """Raises CheckpointError if the stream cannot be forked from a savepoint, or not into this folder."""
    if is_script(spec):
        raise CheckpointError(
            f"{spec.name} is a script, which opens its own checkpoint: no fork of it continues from a savepoint",
            expected="a job with build(spark, spec)",
            where=spec.file or spec.name,
            next_step="run a drill of the stream: its forks of scripts begin with an empty checkpoint",
        )
    require_empty(str(into / FORK))
