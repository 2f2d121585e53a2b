"""The files that no batch of a query has planned: those in its folders that the logs of its sources do not name."""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import unreadable
from streamwarden.checkpoint.formats.sources import SourceFile, source_entries
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.health.window import WaitingInput
from streamwarden.lifecycle.forks.script_sources import is_hidden, is_read, is_recursive
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import parse_duration

RECENT: Final = 20
"""Entries of the file source's log from which the files of a batch are estimated."""

_MAX_FILE_AGE: Final = "7d"
"""Spark's default of `maxFileAge`: a file that is older than the newest read one by more is never read."""


def waiting_files(spec: StreamSpec, checkpoint: Location) -> WaitingInput | None:
    """The files of flat folders that wait. None for a pattern or subfolders in the path, and for an age limit that
    cannot be parsed. Raises CheckpointError, ConfigError, OSError."""
    folders = spec.source.folders
    oldest = _max_age({key.lower(): value for key, value in spec.source.options.items()})
    if oldest is None or any(mark in folder for folder in folders for mark in "*?[{"):
        return None
    of_folders = [
        _waiting(open_path(folder, spec.storage.connection), oldest, source_entries(checkpoint, at))
        for at, folder in enumerate(folders)
    ]
    countable = [waiting for waiting in of_folders if waiting is not None]
    return reduce(_together, countable) if len(countable) == len(of_folders) else None


def unplanned_files(forked: StreamSpec) -> int:
    """The files of the fork's folders that the logs of its sources do not have. Raises CheckpointError."""
    checkpoint = checkpoint_of(forked)
    try:
        planned = {
            file_name(file.path)
            for source in range(len(forked.source.folders))
            for files in source_entries(checkpoint, source).values()
            for file in files
        }
        inputs = [
            file_name(name)
            for folder in forked.source.folders
            for name, _ in open_path(folder, forked.storage.connection).walk(skip=is_hidden)
            if is_read(name, recursive=is_recursive(forked.source.options))
        ]
    except OSError as error:
        raise unreadable(checkpoint, error) from error
    return sum(name not in planned for name in inputs)  # names are distinct: a fork needs that


def _together(one: WaitingInput, other: WaitingInput) -> WaitingInput:
    """The input that waits in two sources of one query; each of its batches reads both."""
    since = [waiting.since for waiting in (one, other) if waiting.since is not None]
    return WaitingInput(
        count=one.count + other.count,
        size=None if one.size is None or other.size is None else one.size + other.size,
        since=min(since, default=None),
        planned=one.planned + other.planned,
        planned_batches=max(one.planned_batches, other.planned_batches),
    )


def _waiting(folder: Location, oldest: float, log: Mapping[int, tuple[SourceFile, ...]]) -> WaitingInput | None:
    """None if the folder has subfolders."""
    read = [file for batch in log.values() for file in batch]
    names = {file_name(file.path) for file in read}  # the folder is flat: a name is a file
    try:
        entries = [entry for entry in folder.entries(names) if not entry.name.startswith((".", "_"))]
    except FileNotFoundError:
        return WaitingInput(count=0, size=0, since=None)
    if any(entry.is_dir for entry in entries):
        return None
    horizon = max((file.timestamp_ms for file in read), default=0) / 1000 - oldest
    waiting = [entry for entry in entries if entry.modified is None or entry.modified >= horizon]
    recent: Mapping[int, tuple[SourceFile, ...]] = dict(list(log.items())[-RECENT:])
    return WaitingInput(
        count=len(waiting),
        size=sum(entry.size for entry in waiting),
        since=min((entry.modified for entry in waiting if entry.modified is not None), default=None),
        planned=sum(len(batch) for batch in recent.values()),
        planned_batches=len(recent),
    )


def _max_age(options: Mapping[str, str]) -> float | None:
    try:
        return parse_duration(options.get("maxfileage", _MAX_FILE_AGE))
    except ValueError:
        return None
