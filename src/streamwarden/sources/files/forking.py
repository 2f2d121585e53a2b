"""Gives a fork the input of its origin: links to the files that are there now, copies of those in an object store."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streamwarden.adapters.storage.files import link_or_copy, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.checkpoint.formats.sources import source_entries
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.lifecycle.forks.fork import BoundedInput, InputFile, input_digest, require_distinct_names
from streamwarden.lifecycle.forks.plan import log_ends
from streamwarden.lifecycle.forks.script_sources import is_hidden, is_read, is_recursive
from streamwarden.stream.spec import StreamSpec


def link_input(spec: StreamSpec, forked: StreamSpec, checkpoint: str | None) -> BoundedInput:
    """The files of `spec` that are there now, linked into the fork's folder, which is on this host.

    Args:
        checkpoint: the fork's, if it has read some of them.

    Raises CheckpointError, ConfigError, OSError.
    """
    origin = open_path(str(spec.source.path), spec.storage.connection)
    files = _input_files(origin, spec.source.parts, recursive=is_recursive(spec.source.options))
    require_distinct_names(files, origin.path)
    for folder in forked.source.folders:
        Path(folder).mkdir(parents=True)
    for file in files:
        target = Path(str(forked.source.path), file.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(origin / file.name, target)
    taken = frozenset() if checkpoint is None else _seen(open_path(checkpoint, forked.storage.connection))
    unseen = [file for file in files if file.seen_as not in taken]
    queues = Counter(file.name.partition("/")[0] if forked.source.parts else "" for file in unseen)
    return BoundedInput(
        what="file",
        total=len(files),
        unseen=len(unseen),
        longest_queue=max(queues.values(), default=0),
        digest=input_digest(files),
    )


def _input_files(source: Location, parts: Sequence[str], *, recursive: bool) -> list[InputFile]:
    """The files that Spark reads in the source's folder, or in its parts."""
    files = []
    for part in parts or ("",):
        folder, below = (source / part, f"{part}/") if part else (source, "")
        with contextlib.suppress(FileNotFoundError):  # it has no input yet
            for name, entry in folder.walk(skip=is_hidden):
                if is_read(name, recursive=recursive):
                    files.append(InputFile(f"{below}{name}", entry.size))
    return sorted(files, key=lambda file: file.name)


def _seen(checkpoint: Location) -> frozenset[str]:
    """Names of the input files that the checkpoint has read."""
    offsets = all_offsets(checkpoint)
    return frozenset(
        file_name(file.path)
        for source, _ in log_ends(offsets[max(offsets)])
        for files in source_entries(checkpoint, source).values()
        for file in files
    )
