"""Gathers the data of a fork's origin: its places, its logs and its state.

The order of the lists makes a copy of a running query whole; see `lifecycle.forks.plan`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    SINK_LOG,
    SOURCES,
    STATE,
    batch_ids,
    compactible_ids,
    list_or_empty,
)
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.checkpoint.formats.state import SSTS, is_scratch, state_stores
from streamwarden.checkpoint.integrity import snapshot_files
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.needed import Tables, snapshots
from streamwarden.lifecycle.forks.plan import Survey
from streamwarden.stream.spec import FORKED, StreamSpec
from streamwarden.waiting import wait_until

COMMIT_WITHIN: Final = 10.0
"""Seconds that a batch may take from the commit of its rows to `commits/N`; it takes a tenth of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The stream that a fork is made of, and where it is.

    Args:
        output: the folder of its output; None: the sink writes to a table or a topic.
        source: the folder of its input; None: the source reads no files.
        manifest: the folder that holds the output's manifest.
        written_as: the path of the checkpoint in files that name it.
        batch: the batch of the savepoint that is forked; None: the stream's own checkpoint is.
    """

    spec: StreamSpec
    checkpoint: Location
    output: Location | None
    source: Location | None
    manifest: Location | None
    written_as: str
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedOrigin:
    """A savepoint as the origin of a fork. `checkpoint`, `output`: folders or URLs of its copies; `written_as`: the
    path that was copied."""

    checkpoint: str
    output: str
    written_as: str
    batch: int


def origin_of(spec: StreamSpec) -> Origin:
    """The stream as the origin of a fork. Raises CheckpointError if one of its places cannot be forked."""
    checkpoint = _place(spec.checkpoint, spec)
    output = _place(spec.sink.path, spec) if spec.sink.MANIFEST else None
    return Origin(
        spec=spec,
        checkpoint=checkpoint,
        output=output,
        source=None if spec.source.path is None else _place(spec.source.path, spec),
        manifest=output,
        written_as=checkpoint.path,
    )


def saved_origin_of(spec: StreamSpec, saved: SavedOrigin) -> Origin:
    """A savepoint of the stream as the origin of a fork. Raises as `origin_of` does."""
    origin = origin_of(replace(spec, checkpoint=saved.checkpoint))
    manifest = None if origin.output is None else _place(saved.output, spec)
    written_as = open_path(saved.written_as, spec.storage.connection).path
    return replace(origin, manifest=manifest, written_as=written_as, batch=saved.batch)


def _place(url: str | None, spec: StreamSpec) -> Location:
    """A place of the stream."""
    origin = open_path(url, spec.storage.connection) if url else None
    supported = origin is not None and (isinstance(origin.fs, LocalFiles) or origin.path.startswith(FORKED))
    if origin is None or not supported or set(origin.path) & set("*?[{"):
        raise CheckpointError(
            f"a fork cannot be made of {url!r}",
            expected="local folders or s3a:// or hdfs:// URLs, no wildcards, as checkpoint, source.path and sink.path",
            where=spec.file or spec.name,
            next_step="name one folder each, on a disk of this host, on s3a:// or hdfs://; no other stream is drilled",
        )
    return origin


def survey(checkpoint: Location, output: Location | None) -> Survey:
    """List the origin in the order that makes a copy of a running query whole. `output` None: no folder is written."""
    return replace(
        survey_logs(checkpoint),
        stores=state_stores(checkpoint),
        state_files=tuple(_operator_files(checkpoint)),
        manifest_ids=(tuple(compactible_ids(list_or_empty(output / SINK_LOG))) or None) if output is not None else None,
        no_manifest=output is None,
    )


def survey_logs(checkpoint: Location) -> Survey:
    """List the logs alone, in the order that makes a copy of a running query whole."""
    return Survey(
        checkpoint=checkpoint.path,
        commits=frozenset(batch_ids(list_or_empty(checkpoint / COMMITS))),
        offsets=all_offsets(checkpoint),
        sources={
            int(name): tuple(compactible_ids(list_or_empty(checkpoint / SOURCES / name)))
            for name in list_or_empty(checkpoint / SOURCES)
            if name.isdigit()
        },
        stores=(),
    )


def named_tables(history: Survey, checkpoint: Location, batches: Collection[int]) -> Tables:
    """The tables that the snapshots of these batches name; opens them. Raises Damaged, OSError."""
    return {
        store.folder: frozenset(
            join(SSTS, name) for file in files for name in snapshot_files(checkpoint / store.folder / file.name)
        )
        for store, files in snapshots(history, batches)
    }


def await_commit(checkpoint: Location, batch: int) -> None:
    """Wait for the commit of a batch that is in the table: in a running query it follows at once."""
    if not wait_until(
        lambda: batch in batch_ids(list_or_empty(checkpoint / COMMITS)), within=COMMIT_WITHIN, every=0.01
    ):
        raise CheckpointError(
            f"batch {batch} is in the table, and commits/{batch} did not come in {COMMIT_WITHIN:g} s",
            expected="a running driver, or one that stopped between batches",
            where=checkpoint.path,
            next_step="start the stream: it commits that batch without writing it again; or fork from the "
            "beginning (`rewind: all`)",
        )


def _operator_files(checkpoint: Location) -> list[str]:
    """Files of `state/OPERATOR/_metadata/`, below the checkpoint."""
    paths = []
    for operator in list_or_empty(checkpoint / STATE):
        for name in list_or_empty(checkpoint / STATE / operator):
            if name.startswith("_"):
                files = (checkpoint / STATE / operator / name).walk(skip=is_scratch)
                paths += [join(STATE, operator, name, path) for path, _ in files]
    return sorted(paths)
