"""Says what a restore or a rewind would do. Nothing is changed, and the stream may run."""

import time
from dataclasses import dataclass

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan, stamp_of
from streamwarden.services.exchanges.journals import interrupted, require_same
from streamwarden.services.exchanges.quarantine import later_folders
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore_to
from streamwarden.services.savepoints.rewinding import Target, plan_rewind
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import require_whole
from streamwarden.stream.spec import StreamSpec

_NOBODY = Author(by="", reason="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What would be done.

    Args:
        files: of the checkpoint that would be linked or copied.
        aside: where the previous checkpoint would be kept.
        output: what the sink would do; remains: what it could not take back, and would have to be confirmed.
        quarantined: batches whose malformed rows would be moved aside.
    """

    stream: str
    batch: int
    files: int
    checkpoint: str
    aside: str
    output: str
    remains: str
    quarantined: int


def preview_restore(spec: StreamSpec, savepoint: str | None) -> Preview:
    """Raises CheckpointError as a restore does, except for a stream that runs and a savepoint that Spark refuses."""
    require_same(interrupted(spec), "")
    savepoints = Savepoints.of(spec)
    saved = savepoints.get(savepoint)
    change = restore_to(spec, saved, Request(author=_NOBODY, confirmed=True))
    require_whole(savepoints, saved)
    wanted = change.planned(checkpoint_of(spec).path, stamp_of(time.time()))
    files = sum(file.path.startswith("checkpoint/") for file in saved.files)
    return _preview(spec, wanted, change.plan_output(wanted), files)


def preview_rewind(spec: StreamSpec, target: Target) -> Preview:
    """Raises CheckpointError as a rewind does, except for a stream that runs and a copy that Spark refuses."""
    require_same(interrupted(spec), "")
    plan = plan_rewind(spec, target)
    return _preview(spec, plan.wanted, plan.output, plan.files)


def _preview(spec: StreamSpec, wanted: Exchange, output: OutputPlan, files: int) -> Preview:
    quarantined = []
    if spec.quarantine is not None:
        quarantined = later_folders(open_path(spec.quarantine, spec.storage.connection), wanted)
    return Preview(
        stream=spec.name,
        batch=wanted.batch,
        files=files,
        checkpoint=wanted.checkpoint,
        aside=wanted.aside,
        output=output.words,
        remains=output.remains,
        quarantined=len(quarantined),
    )
