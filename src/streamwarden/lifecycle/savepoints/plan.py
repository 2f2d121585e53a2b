"""The plan of a savepoint: the files that a checkpoint needs at a committed batch N, and where each is copied. Pure.

What a fork copies is planned in `lifecycle.forks.plan`, and the order there makes the copy of a running query whole. A
savepoint is copied by the same steps, with these differences:

- Only what N needs: the logs of N and N-1, of each store the snapshot that N is loaded from with the changes after it,
  and the tables that this snapshot names. Spark purges the rest meanwhile, which would end a long copy. In checkpoint
  format 2 the commit decides which of several attempts counts, so that all attempts are taken.
- Nothing is rewritten: a restored checkpoint is at its old place, with the old query id.
- Of a sink of files the manifest up to N is copied, and not the data: a restore keeps all data files where they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import METADATA, SINK_LOG, chain, compactible_name
from streamwarden.checkpoint.formats.state import SSTS, FileKind, StateFile, StateStore
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import (
    Link,
    Survey,
    checkpoint_links,
    log_ends,
    operator_logs,
    ranges,
    source_logs,
    why_not,
)

Tables = Mapping[str, frozenset[str]]
"""Folder of a store -> tables (`SSTs/…`) that the snapshot names from which its state is loaded."""


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
    ways = f"name one of the batches {ranges(possible)} with `--batch`" if possible else "run `streamwarden inspect`"
    raise _cannot(survey, f"batch {batch}: {obstacle}", ways)


def snapshots(survey: Survey, batch: int) -> Iterator[tuple[StateStore, StateFile]]:
    """The snapshots of RocksDB that the state after `batch` is loaded from: each names tables, which it shares with
    others. In checkpoint format 2 no snapshot is chosen, and all tables are copied."""
    for store in survey.stores:
        snapshot = store.load(batch + 1).snapshot
        if snapshot is not None and snapshot.kind is FileKind.ZIP and not _several_attempts(store):
            yield store, snapshot


def needed(survey: Survey, batch: int, tables: Tables) -> Survey:
    """The survey with only what `batch` needs."""
    kept = {batch - 1, batch}
    ends = dict(log_ends(survey.offsets[batch]))
    return replace(
        survey,
        commits=survey.commits & kept,
        offsets={number: record for number, record in survey.offsets.items() if number in kept},
        sources={
            source: tuple(chain(ids, ends[source])[0]) if source in ends else ids
            for source, ids in survey.sources.items()
        },
        stores=tuple(_needed(store, batch + 1, tables) for store in survey.stores),
        manifest_ids=None if survey.manifest_ids is None else tuple(chain(survey.manifest_ids, batch)[0]),
    )


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


def _needed(store: StateStore, version: int, tables: Tables) -> StateStore:
    load = store.load(version)
    if _several_attempts(store) or not load.complete:
        return store
    files = (*([load.snapshot] if load.snapshot is not None else []), *load.changes)
    named = tables.get(store.folder, frozenset())
    other = {name: size for name, size in store.other.items() if not name.startswith(f"{SSTS}/")}
    return replace(store, files=files, other={**other, **dict.fromkeys(named, 0)})


def _several_attempts(store: StateStore) -> bool:
    """Whether the store is of checkpoint format 2."""
    return any(file.unique_id is not None for file in store.files)


def _cannot(survey: Survey, observed: str, next_step: str) -> CheckpointError:
    return CheckpointError(
        f"no savepoint can be taken there: {observed}",
        expected="a committed batch whose logs, state and manifest entries are all still kept",
        where=survey.checkpoint,
        next_step=next_step,
    )
