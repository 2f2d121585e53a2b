"""Makes forks of local streams: surveys the origin, plans with `lifecycle.fork`, carries the plan out."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

from streamwarden.adapters import sink_topic as topics
from streamwarden.adapters.files import LocalFiles, open_path
from streamwarden.adapters.postgresql import forks as tables
from streamwarden.adapters.topic_lag import topic_input
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.layout import (
    COMMITS,
    SINK_LOG,
    SOURCES,
    STATE,
    Damaged,
    batch_ids,
    compactible_ids,
    list_or_empty,
    read_log_file,
)
from streamwarden.checkpoint.logs import all_offsets
from streamwarden.checkpoint.sink import read_sink_manifest
from streamwarden.checkpoint.sources import source_entries
from streamwarden.checkpoint.state import is_scratch, state_stores
from streamwarden.checkpoint.uris import file_name
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle import fork as plans
from streamwarden.lifecycle.fork import BoundedInput, Fork, InputFile, Link, Places, Step, Survey, Write
from streamwarden.stream import SinkKind, SourceKind, StreamSpec

ATTEMPTS: Final = 5
"""Spark purges old logs and state versions while they are linked; a new attempt starts from what is there then."""

COMMIT_WITHIN: Final = 10.0
"""Seconds that a batch may take from the commit of its rows to `commits/N`; it takes a tenth of one."""

_NO_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
"""Another device, a protected file, too many links, a file system without links: copy instead."""

_OUTSIDE: Final = (SinkKind.POSTGRESQL, SinkKind.KAFKA)
"""Sinks whose output is in no folder."""

_FILES: Final = LocalFiles()


def fork(spec: StreamSpec, *, into: Path, rewind: int | Literal["all"] | None = 0) -> Fork:
    """Fork `spec`, which may be running; nothing of the origin is changed.

    Args:
        into: folder of the fork, absent or empty: gets checkpoint/, output/, input/ (and quarantine/ when it runs).
        rewind: 0: at the newest committed batch; k: k batches before it; "all" or None: from the beginning, with an
            empty checkpoint and an empty output, so that the whole bounded input is processed again.

    Raises CheckpointError if the stream cannot be forked (remote paths, a job with its own source or sink, a database
    that does not let it), the batch is not kept any more (with the rewinds that are possible), or `into` is not empty.
    """
    into = into.absolute()
    places = Places.under(str(into))
    forked = plans.forked_spec(spec, places)
    checkpoint = _local(spec.checkpoint, spec)
    output = None if spec.sink.kind in _OUTSIDE else _local(spec.sink.path, spec)
    source = "" if spec.source.kind is SourceKind.KAFKA else _local(spec.source.path, spec)
    _require_empty(into)
    drop_output(forked)  # of an attempt whose folder is gone: the name is a digest of it
    for attempt in range(1, ATTEMPTS + 1):
        try:
            batch, query_id = None, None
            if rewind not in ("all", None):
                query_id = str(uuid.uuid4())
                if spec.sink.kind is SinkKind.POSTGRESQL:
                    batch = _carry_table(spec, forked, source, places, int(rewind), query_id)
                else:
                    batch = _carry(checkpoint, output, source, places, int(rewind))
            elif spec.sink.kind is SinkKind.POSTGRESQL:
                tables.make_empty(spec, forked)
            if spec.sink.kind is SinkKind.KAFKA:
                topics.make(spec, forked)
            if query_id is not None:
                _carry_out([plans.metadata_step(places, query_id)])
            carried = places.checkpoint if batch is not None else None
            found = _files(spec, forked, source, places, carried) if source else topic_input(forked, carried)
        except FileNotFoundError as error:
            clear(into, forked)
            if attempt == ATTEMPTS:
                raise _vanished(spec, error) from error
        except BaseException:
            clear(into, forked)
            raise
        else:
            break
    forked = plans.in_batches(spec, forked, found.unseen)
    return Fork(
        spec=forked,
        origin=spec.name,
        batch=batch,
        query_id=query_id,
        inputs=found.total,
        unseen=found.unseen,
        longest_queue=found.longest_queue,
        batches_left=plans.batches_left(forked, found.longest_queue),
        input_digest=found.digest,
        what=found.what,
    )


def _files(spec: StreamSpec, forked: StreamSpec, source: str, places: Places, checkpoint: str | None) -> BoundedInput:
    """Step 5: the input that is there now, linked. `checkpoint`: the fork's, if it has read some of it."""
    files = _input_files(source, spec.source.parts)
    plans.require_distinct_names(files, source)
    for folder in forked.source.folders:
        Path(folder).mkdir(parents=True)
    _carry_out(plans.input_links(files, source, places))
    seen = frozenset() if checkpoint is None else _seen(checkpoint)
    unseen = [file for file in files if file.seen_as not in seen]
    queues = Counter(file.name.partition("/")[0] if forked.source.parts else "" for file in unseen)
    return BoundedInput(
        what="file",
        total=len(files),
        unseen=len(unseen),
        longest_queue=max(queues.values(), default=0),
        digest=plans.input_digest(files),
    )


def survey(checkpoint: str, output: str | None) -> Survey:
    """List the origin in the order that makes a copy of a running query whole. `output` None: its sink is no folder."""
    return Survey(
        checkpoint=checkpoint,
        commits=frozenset(batch_ids(list_or_empty(_FILES, checkpoint, COMMITS))),
        offsets=all_offsets(_FILES, checkpoint),
        sources={
            int(name): tuple(compactible_ids(list_or_empty(_FILES, checkpoint, SOURCES, name)))
            for name in list_or_empty(_FILES, checkpoint, SOURCES)
            if name.isdigit()
        },
        stores=state_stores(_FILES, checkpoint),
        state_files=tuple(_operator_files(Path(checkpoint))),
        manifest_ids=tuple(compactible_ids(list_or_empty(_FILES, output, SINK_LOG))) or None if output else None,
        no_manifest=output is None,
    )


def _carry(checkpoint: str, output: str | None, source: str, places: Places, rewind: int) -> int:
    """Steps 1 to 4 of a fork at a committed batch; returns the batch. `output` None: a topic, of which none is kept."""
    found = survey(checkpoint, output)
    batch = plans.choose_batch(found, rewind)
    _carry_checkpoint(found, source, places, batch)
    if output is None:
        return batch
    manifest = read_sink_manifest(_FILES, output, batch)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "the manifest vanished", str(Path(output) / SINK_LOG))
    _carry_out(plans.manifest_steps(manifest, output, places))
    return batch


def _carry_table(spec: StreamSpec, forked: StreamSpec, source: str, places: Places, rewind: int, query_id: str) -> int:
    """The same for a sink that is a table: the table first, then the checkpoint as of its batch."""
    checkpoint = _local(spec.checkpoint, spec)
    newest = tables.copy(spec, forked, rewind=rewind, query_id=query_id)
    _await_commit(checkpoint, newest)
    found = survey(checkpoint, None)
    batch = newest - rewind
    plans.require_batch(found, batch)
    _carry_checkpoint(found, source, places, batch)
    return batch


def _await_commit(checkpoint: str, batch: int) -> None:
    """Wait for the commit of a batch that is in the table: in a running query it follows at once."""
    deadline = time.monotonic() + COMMIT_WITHIN
    while batch not in batch_ids(list_or_empty(_FILES, checkpoint, COMMITS)):
        if time.monotonic() > deadline:
            raise CheckpointError(
                f"batch {batch} is in the table, and commits/{batch} did not come in {COMMIT_WITHIN:g} s",
                expected="a driver that runs, or one that ended between two batches",
                where=checkpoint,
                next_step="start the stream: it commits that batch without writing it again; or fork from the "
                "beginning (`rewind: all`)",
            )
        time.sleep(0.01)


def _carry_checkpoint(found: Survey, source: str, places: Places, batch: int) -> None:
    """Steps 1 to 3 of a fork at a committed batch."""
    checkpoint = found.checkpoint
    _carry_out(plans.checkpoint_links(found, places, batch))
    for names, step, expected in (
        (
            plans.source_logs(found, batch),
            partial(plans.source_log_step, source=source),
            "a whole log of the file source",
        ),
        (
            plans.operator_logs(found, batch),
            partial(plans.operator_step, checkpoint=checkpoint),
            "whole metadata of the operator",
        ),
    ):
        _carry_out(_rewritten(checkpoint, name, places, step, expected) for name in names)


def _rewritten(checkpoint: str, name: str, places: Places, step: Callable[..., Write], expected: str) -> Write:
    """A file of the checkpoint as `step` rewrites it for the fork."""
    try:
        return step(name, read_log_file(_FILES, join(checkpoint, name)), places=places)
    except Damaged as error:
        raise CheckpointError(
            str(error),
            expected=expected,
            where=join(checkpoint, name),
            next_step="run `streamwarden inspect` on the checkpoint; or fork from the beginning (`rewind: all`)",
        ) from error


def _carry_out(steps: Iterable[Step]) -> None:
    made: set[Path] = set()
    for step in steps:
        target = Path(step.target)
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        match step:
            case Write(text=text):
                target.write_text(text, encoding="utf-8")
            case Link(source=source):
                _link(source, step.target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copy2(source, target)  # with its modification time: a file source orders its input by it


def _input_files(source: str, parts: Sequence[str]) -> list[InputFile]:
    """Whole files below the source's folder, or its parts: a name that begins with `.` or `_` is somebody's scratch."""
    found = []
    root = Path(source)
    for part in parts or (".",):
        for folder, folders, names in os.walk(root / part):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
            for name in sorted(names):
                if not name.startswith((".", "_")):
                    path = Path(folder) / name
                    found.append(InputFile(path.relative_to(root).as_posix(), path.stat().st_size))
    return found


def _operator_files(checkpoint: Path) -> list[str]:
    """Files of `state/OPERATOR/_metadata/`, below the checkpoint."""
    files = (path for path in checkpoint.glob(f"{STATE}/*/_*/**/*") if path.is_file() and not is_scratch(path.name))
    return sorted(path.relative_to(checkpoint).as_posix() for path in files)


def _seen(checkpoint: str) -> frozenset[str]:
    """Names of the input files that the fork's checkpoint has read; other kinds of sources keep no such log."""
    offsets = all_offsets(_FILES, checkpoint)
    return frozenset(
        file_name(file.path)
        for source, _ in plans.log_ends(offsets[max(offsets)])
        for files in source_entries(_FILES, checkpoint, source).values()
        for file in files
    )


def _local(url: str | None, spec: StreamSpec) -> str:
    """The absolute local path of a place of the stream."""
    fs, path = open_path(url) if url else (None, "")
    if not isinstance(fs, LocalFiles) or set(path) & set("*?[{"):
        raise CheckpointError(
            f"a fork cannot be made of {url!r}",
            expected="local folders, without wildcards, as checkpoint, source.path and sink.path",
            where=spec.file or spec.name,
            next_step="drill this stream with `target: production`",
        )
    return path


def _require_empty(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise CheckpointError(
            "the fork's folder is not empty",
            expected="a folder that does not exist yet or is empty",
            where=str(into),
            next_step="remove what an earlier fork left, or choose another folder",
        )


def clear(into: Path, forked: StreamSpec) -> None:
    """Remove the fork in `into`: its folders, and its table or topic. Raises what `drop_output` raises."""
    drop_output(forked)
    for each in into.iterdir() if into.is_dir() else ():
        shutil.rmtree(each)


def drop_output(forked: StreamSpec) -> str | None:
    """Remove the fork's table or topic; returns its name, None if there is none.

    Raises CheckpointError if the database or the broker does not let it.
    """
    if forked.sink.kind is SinkKind.POSTGRESQL:
        schema = tables.drop(forked)
        return None if schema is None else f"the schema {schema}"
    if forked.sink.kind is SinkKind.KAFKA:
        topic = topics.drop(forked)
        return None if topic is None else f"the topic {topic}"
    return None


def _vanished(spec: StreamSpec, error: FileNotFoundError) -> CheckpointError:
    return CheckpointError(
        f"{error.filename} is not there, in each of {ATTEMPTS} attempts",
        expected="every file that the checkpoint and the sink's manifest name, and a folder of input",
        where=spec.file or spec.name,
        next_step="run `streamwarden inspect` on the checkpoint with its output; or fork from the beginning",
    )
