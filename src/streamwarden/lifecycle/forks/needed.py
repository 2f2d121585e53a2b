"""The part of a checkpoint that some of its batches need: a savepoint copies that of one, a reader of state opens that
of several. Pure.

Spark purges the rest meanwhile, which would end a long copy. In checkpoint format 2 the commit decides which of several
attempts counts, so that all attempts are taken.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from streamwarden.checkpoint.formats.layout import chain
from streamwarden.checkpoint.formats.state import SSTS, FileKind, Load, StateFile, StateStore
from streamwarden.lifecycle.forks.plan import Survey, log_ends

Tables = Mapping[str, frozenset[str]]
"""Folder of a store -> tables (`SSTs/…`) that the snapshots name from which its state is loaded."""


def snapshots(survey: Survey, batches: Collection[int]) -> Iterator[tuple[StateStore, list[StateFile]]]:
    """The snapshots of RocksDB that the state after these batches is loaded from: each names tables, which it shares
    with others. In checkpoint format 2 no snapshot is chosen, and all tables are taken."""
    for store in survey.stores:
        named = [load.snapshot for load in _loads(store, batches) if load.snapshot is not None]
        if not _several_attempts(store):
            yield store, [file for file in dict.fromkeys(named) if file.kind is FileKind.ZIP]


def to_continue(survey: Survey, batch: int, tables: Tables) -> Survey:
    """The survey with only what a query needs that goes on after `batch`: the logs of it and of the batch before it,
    its state, and the manifest up to it."""
    ends = dict(log_ends(survey.offsets[batch]))
    return replace(
        _needed(survey, (batch,), tables, {batch - 1, batch}),
        sources={
            source: tuple(chain(ids, ends[source])[0]) if source in ends else ids
            for source, ids in survey.sources.items()
        },
        manifest_ids=None if survey.manifest_ids is None else tuple(chain(survey.manifest_ids, batch)[0]),
    )


def to_read(survey: Survey, batches: Collection[int], tables: Tables) -> Survey:
    """The survey with only what a reader of the state after these batches opens."""
    return replace(_needed(survey, batches, tables, batches), sources={})


def _needed(survey: Survey, batches: Collection[int], tables: Tables, logs: Collection[int]) -> Survey:
    return replace(
        survey,
        commits=survey.commits & frozenset(logs),
        offsets={number: record for number, record in survey.offsets.items() if number in logs},
        stores=tuple(_of_store(store, batches, tables) for store in survey.stores),
    )


def _of_store(store: StateStore, batches: Collection[int], tables: Tables) -> StateStore:
    loads = _loads(store, batches)
    if _several_attempts(store):
        newest = max(load.version for load in loads)
        return replace(store, files=tuple(file for file in store.files if file.version <= newest))
    if not all(load.complete for load in loads):
        return store
    files = dict.fromkeys(file for load in loads for file in (*filter(None, [load.snapshot]), *load.changes))
    named = tables.get(store.folder, frozenset())
    other = {name: size for name, size in store.other.items() if not name.startswith(f"{SSTS}/")}
    return replace(store, files=tuple(files), other={**other, **dict.fromkeys(named, 0)})


def _loads(store: StateStore, batches: Collection[int]) -> list[Load]:
    return [store.load(batch + 1) for batch in sorted(batches)]


def _several_attempts(store: StateStore) -> bool:
    """Whether the store is of checkpoint format 2."""
    return any(file.unique_id is not None for file in store.files)
