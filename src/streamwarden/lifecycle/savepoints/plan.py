"""The plan of a savepoint: the files that a checkpoint needs at a committed batch N, and where each is copied. Pure.

What a fork copies is planned in `lifecycle.forks.plan`, and the order there makes the copy of a running query whole. A
savepoint is copied by the same steps, with these differences:

- Only what N needs (`lifecycle.forks.needed`).
- Nothing is rewritten: a restored checkpoint is at its old place, with the old query id.
- Of a sink of files the manifest up to N is copied, and not the data: a restore keeps all data files where they are.
"""

from collections.abc import Iterator

from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import METADATA, SINK_LOG, compactible_name
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import (
    Link,
    Survey,
    checkpoint_links,
    operator_logs,
    ranges,
    source_logs,
    why_not,
)


def batch_to_save(survey: Survey, wanted: int | None) -> int:
    """The batch of a savepoint: `wanted`, by default the newest committed one.

    Raises CheckpointError if the checkpoint cannot be opened there; the message says where it can.
    """
    if not survey.commits:
        raise _cannot(survey, "no batch is committed yet", "wait for the first commit")
    batch = max(survey.commits) if wanted is None else wanted
    obstacle = why_not(survey, batch)
    if obstacle is None:
        return batch
    possible = [number for number in sorted(survey.commits) if why_not(survey, number) is None]
    ways = f"name one of the batches {ranges(possible)}" if possible else "run `streamwarden inspect`"
    raise _cannot(survey, f"batch {batch}: {obstacle}", ways)


def links(survey: Survey, places: Places, batch: int) -> Iterator[Link]:
    """The copy of a survey that has only what `batch` needs; `metadata` last, as in a fork."""
    yield from checkpoint_links(survey, places, batch)
    for name in (*source_logs(survey, batch), *operator_logs(survey, batch), METADATA):
        yield Link(join(survey.checkpoint, name), join(places.checkpoint, name))


def manifest_links(survey: Survey, places: Places, output: str) -> Iterator[Link]:
    """The copy of the manifest of `output`, the folder of a sink of files."""
    for entry in survey.manifest_ids or ():
        name = join(SINK_LOG, compactible_name(*entry))
        yield Link(join(output, name), join(places.output, name))


def _cannot(survey: Survey, observed: str, next_step: str) -> CheckpointError:
    return CheckpointError(
        f"no savepoint can be taken there: {observed}",
        expected="a committed batch whose logs, state and manifest entries are all still kept",
        where=survey.checkpoint,
        next_step=next_step,
    )
