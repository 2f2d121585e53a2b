"""The plan of a fork: at which of its batches a checkpoint can still be opened, and the steps that copy it. Pure.

What is copied, and why in this order, while the query may be running:

1. `commits/` up to N, then `offsets/` up to N: N was committed when this began, so all that it needs is complete.
2. `sources/` up to the log offset at which batch N ends, with its compact file: files read later are unseen again.
   Rewritten to the fork's own input: at a start Spark builds batch N's input once more, and refuses other paths.
3. State files of versions up to N+1 (the state after batch N) and all state files without a version. An operator's
   metadata up to N, rewritten: some name the files of their schema by absolute paths, which would be the origin's.
4. The sink's manifest up to N, rewritten to the fork's own absolute paths (with the origin's paths Spark's reader would
   silently show only new rows), after it the data files that it names. A manifest that is ahead of the checkpoint
   would lose batches: the file sink skips a batch that its manifest already has.
5. The input: every complete file that is there now. A seen file is recognised by its name alone (`fileNameOnly`).
6. `metadata` with a new query id, last: without it Spark refuses to start on what an interrupted copy left behind.

For a sink that is a table, step 4 comes first: the rows and the table of batch ids are copied as of one moment, and the
checkpoint is forked at the newest of these batches; a batch is in the table before it is in `commits/`. For a sink that
is a topic nothing is copied: the fork's own topic begins with the fork's first batch.

Everything that is not rewritten is hard-linked: Spark never writes into a published file, it replaces files by rename.
What is in an object store is copied instead, to this host or within the store.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SINK_LOG,
    SOURCES,
    STATE,
    Damaged,
    LogFile,
    chain,
    compactible_name,
    parse_object,
)
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.sink import SinkManifest
from streamwarden.checkpoint.formats.sources import log_offset
from streamwarden.checkpoint.formats.state import StateStore
from streamwarden.checkpoint.formats.uris import to_path, to_uri
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places

_OPERATOR: Final = re.compile(rf"{STATE}/\d+/_metadata/(?:(?P<sum>.*\.crc)|metadata|v2/(?P<batch>\d+))")
"""An operator's metadata (format 1: one file; format 2: one a batch that changed it), or its checksum."""


@dataclass(frozen=True, slots=True)
class Link:
    """A hard link of `source` at `target`; a copy where there are no links, or the two are on different devices."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Write:
    """A text file that the fork gets."""

    target: str
    text: str


CopyStep = Link | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Content of the origin, listed in order: commits, offsets, source logs, state.

    Args:
        checkpoint: absolute local folder, or URL.
        sources: source -> (log offset, whether compact) of each file of its log.
        state_files: files of `state/` that belong to no partition, below the checkpoint.
        manifest_ids: (batch, whether compact) of each entry of the sink's manifest; None: the sink has no manifest.
        no_manifest: the sink is a table or a topic, which need none.
    """

    checkpoint: str
    commits: frozenset[int]
    offsets: Mapping[int, OffsetRecord]
    sources: Mapping[int, tuple[tuple[int, bool], ...]]
    stores: tuple[StateStore, ...]
    state_files: tuple[str, ...] = ()
    manifest_ids: tuple[tuple[int, bool], ...] | None = None
    no_manifest: bool = False


def choose_batch(survey: Survey, rewind: int, copied: int | None = None) -> int:
    """The committed batch that lies `rewind` batches before the newest committed one.

    Args:
        copied: the newest batch of a sink that was copied before; None: the newest commit counts.

    Raises CheckpointError if no batch is committed, or that batch can no longer be opened; the message says how far
    back the checkpoint reaches."""
    if copied is not None:
        obstacle = why_not(survey, batch := copied - rewind)
        if obstacle is None:
            return batch
        raise _cannot(survey, f"batch {batch}: {obstacle}", "fork from the beginning (`rewind: all`)")
    if not survey.commits:
        raise _cannot(survey, "no batch is committed yet", "wait for the first commit, or fork from the beginning")
    newest = max(survey.commits)
    obstacle = why_not(survey, newest - rewind) if rewind >= 0 else "it is in the future"
    if obstacle is None:
        return newest - rewind
    possible = [back for back in range(newest + 1) if why_not(survey, newest - back) is None]
    ways = "fork from the beginning (`rewind: all`)"
    if possible:
        ways = f"rewind by {ranges(possible)} batches, or {ways}"
    raise _cannot(survey, f"batch {newest - rewind} ({rewind} before the newest, {newest}): {obstacle}", ways)


def why_not(survey: Survey, batch: int) -> str | None:
    """Why the origin cannot be opened at `batch`; None if it can."""
    if batch < 0:
        return "there is no such batch"
    if batch not in survey.commits:
        return f"commits/{batch} is gone or was never written"
    for needed in range(max(batch - 1, 0), batch + 1):  # Spark reads the offsets of the batch before the last one too
        if needed not in survey.offsets:
            return f"offsets/{needed} is gone or cannot be read"
    for source, upto in log_ends(survey.offsets[batch]):
        _, missing = chain(survey.sources.get(source, ()), upto)
        if missing:
            return f"sources/{source}/{missing[0]} is gone"
    partitions = survey.offsets[batch].shuffle_partitions
    for store in survey.stores:
        load = store.load(batch + 1)
        if (partitions is None or store.partition < partitions) and not load.complete:
            return f"the state in {store.folder} lacks version {load.missing[0]}"
    if survey.no_manifest:
        return None
    if survey.manifest_ids is None:
        return "the sink has no manifest"
    _, missing = chain(survey.manifest_ids, batch)
    if missing:
        return f"the sink's manifest has no entry for batch {missing[0]}"
    return None


def checkpoint_links(survey: Survey, places: Places, batch: int) -> Iterator[Link]:
    """Steps 1 to 3: logs and state up to `batch`, without the logs of file sources (`source_log_step`)."""
    names = [join(COMMITS, str(number)) for number in sorted(survey.commits) if number <= batch]
    names += [join(OFFSETS, str(number)) for number in sorted(survey.offsets) if number <= batch]
    names += starting_logs(survey, survey.offsets[batch])
    names += [name for name in survey.state_files if _OPERATOR.fullmatch(name) is None]
    for store in survey.stores:
        names += [join(store.folder, file.name) for file in store.files if file.version <= batch + 1]
        names += [join(store.folder, name) for name in sorted(store.other)]
    for name in names:
        yield Link(join(survey.checkpoint, name), join(places.checkpoint, name))


def starting_logs(survey: Survey, record: OffsetRecord) -> list[str]:
    """Logs of the sources that keep no log of files: their entries say where the source began."""
    ends = dict(log_ends(record))
    return [
        join(SOURCES, str(source), compactible_name(*entry))
        for source, ids in sorted(survey.sources.items())
        if source not in ends
        for entry in ids
    ]


def source_logs(survey: Survey, batch: int) -> list[str]:
    """Files of the file sources' logs that a fork at `batch` has, below the checkpoint."""
    return [
        join(SOURCES, str(source), compactible_name(at, compact))
        for source, upto in log_ends(survey.offsets[batch])
        for at, compact in survey.sources.get(source, ())
        if at <= upto
    ]


def operator_logs(survey: Survey, batch: int) -> list[str]:
    """Metadata of the operators that a fork at `batch` has, below the checkpoint."""
    matches = ((name, _OPERATOR.fullmatch(name)) for name in survey.state_files)
    return [
        name
        for name, match in matches
        if match is not None and not match["sum"] and (match["batch"] is None or int(match["batch"]) <= batch)
    ]


def operator_step(name: str, log: LogFile, checkpoint: str, places: Places) -> Write:
    """Step 3 for one operator's metadata: the schema files that it names are the fork's own. Raises Damaged."""
    body = parse_object("".join(log.lines))
    stores = body.get("stateStoreInfo")
    for store in stores if isinstance(stores, list) else ():
        paths = store.get("stateSchemaFilePaths")
        if paths:
            try:
                moved = [to_uri(join(places.checkpoint, _below(to_path(str(path)), checkpoint))) for path in paths]
            except ValueError as error:
                raise Damaged(f"the schema of its store {store.get('storeName')}: it {error}") from error
            store["stateSchemaFilePaths"] = moved
    return Write(join(places.checkpoint, name), f"v{log.version}\n{_compact(body)}")


def source_log_step(name: str, log: LogFile, source: str, places: Places) -> Write:
    """Step 2 for one file: each path below the source's folder becomes one below the fork's input.

    Raises CheckpointError if a line cannot be understood.
    """
    lines = [f"v{log.version}"]
    for line in log.lines:
        try:
            body = dict(parse_object(line))
            body["path"] = to_uri(join(places.input, _below(to_path(str(body["path"])), source)))
        except (Damaged, KeyError, ValueError) as error:
            raise CheckpointError(
                f"the log of the file source cannot be copied: {error}",
                expected="entries that name files of the source's folder",
                where=f"{name}, source {source}",
                next_step="run `streamwarden inspect` on the checkpoint; or fork from the beginning (`rewind: all`)",
            ) from error
        lines.append(_compact(body))
    return Write(join(places.checkpoint, name), "\n".join(lines))


def manifest_steps(manifest: SinkManifest, output: str, places: Places) -> list[CopyStep]:
    """Step 4: the manifest rewritten to the fork's paths, then the data files that it names.

    Raises CheckpointError if it is damaged or names a file outside of the origin's output folder.
    """
    where = join(output, SINK_LOG)
    if manifest.missing or manifest.damaged:
        what = f"{manifest.missing[0]} is missing" if manifest.missing else ": ".join(manifest.damaged[0])
        raise _manifest(where, what)
    writes: list[CopyStep] = []
    data: dict[str, str] = {}
    for entry in manifest.entries:
        lines = [f"v{entry.version}"]
        for line in entry.lines:
            try:
                body = dict(parse_object(line))
                relative = _below(to_path(str(body["path"])), output)
            except (Damaged, KeyError, ValueError) as error:
                raise _manifest(where, f"{entry.name}: {error}") from error
            target = join(places.output, relative)
            body["path"] = to_uri(target)
            lines.append(_compact(body))
            if body.get("action") == "delete":
                data.pop(relative, None)
            elif not body.get("isDir"):
                data[relative] = target
        writes.append(Write(join(places.output, SINK_LOG, entry.name), "\n".join(lines)))
    return [*writes, *(Link(join(output, relative), target) for relative, target in data.items())]


def metadata_step(places: Places, query_id: str) -> Write:
    """Step 6."""
    return Write(join(places.checkpoint, METADATA), _compact({"id": query_id}))


def log_ends(record: OffsetRecord) -> list[tuple[int, int]]:
    """(source, log offset that the batch ends at) of each file source of the query."""
    ends = [(index, log_offset(value)) for index, value in enumerate(record.sources)]
    return [(index, end) for index, end in ends if end is not None]


def _compact(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _below(path: str, folder: str) -> str:
    prefix = folder.rstrip("/") + "/"
    if not path.startswith(prefix):
        raise ValueError(f"names {path}, which is not below {folder}")
    return path.removeprefix(prefix)


def ranges(numbers: list[int]) -> str:
    """`[0, 1, 2, 5]` -> `0-2, 5`; numbers ascend."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][-1:] = [number] if len(runs[-1]) > 1 else [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _cannot(survey: Survey, observed: str, ways: str) -> CheckpointError:
    return CheckpointError(
        f"the query cannot be forked there: {observed}",
        expected="a committed batch whose logs, state and manifest entries are all still kept",
        where=survey.checkpoint,
        next_step=ways,
    )


def _manifest(where: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"the sink's manifest cannot be copied: {what}",
        expected="an entry for each batch, each naming files of this output folder",
        where=where,
        next_step="run `streamwarden inspect` on the checkpoint with its output; or fork from the beginning",
    )
