"""The files that a finished run read, as an oracle takes them, and whether they were read in Spark's order."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from streamwarden.adapters.storage.files import download, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.checkpoint.pattern_names import read_again
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.forks.script_sources import is_recursive
from streamwarden.sources.base import FinishedRun, RunInput, unknown_input
from streamwarden.sources.changed_input import changed_since_read, input_changed
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.contradictions import disorder

_Log: TypeAlias = Mapping[int, Sequence[str]]
"""Batch -> URIs of the files that it read, of one source."""


def read_back(spec: StreamSpec, run: FinishedRun) -> RunInput:
    """See `Source.read_back`. Input that is not on this host is copied into `run.into`: an oracle reads local files."""
    logs = _committed(spec, run)
    if run.into is None:
        return RunInput(files=_local_files(run, logs, {}))
    folders = spec.source.folders
    local = _downloaded(spec, run.into) if "source" in spec.stored else folders
    files = _local_files(run, logs, dict(zip(folders, local, strict=True)))
    _require_unchanged(spec, run, files)
    inputs = run.inputs
    if inputs is None:
        inputs = [path for folder in local for path in input_files(Path(folder))]
    return RunInput(
        inputs=inputs,
        files=files,
        problems=(*_disorder(spec, files, run.bounded_from), *_read_again(spec, logs, run.bounded_from or 0)),
    )


def _require_unchanged(spec: StreamSpec, run: FinishedRun, batches: Iterable[int]) -> None:
    """Raises VerificationError if a file is no longer the one that the run read."""
    compared = [batch for batch in batches if batch >= run.compared_from]
    places = range(len(spec.source.folders))
    if changed := changed_since_read(run.checkpoint, places, spec.storage.connection, compared):
        raise input_changed(changed)


def input_files(folder: Path) -> list[Path]:
    """The files that Spark would read in a folder: not the hidden ones. Raises VerificationError if it is missing."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith((".", "_")))
    except OSError as error:
        raise VerificationError(
            f"the input cannot be listed: {error.strerror}",
            expected="the folder of the whole input",
            where=str(folder),
            next_step="restore it, or verify against a copy",
        ) from error


def _downloaded(spec: StreamSpec, into: Path) -> tuple[str, ...]:
    """The local copy of each source's folder."""
    files = []
    for number, folder in enumerate(spec.source.folders):
        target = into / str(number)
        target.mkdir()
        try:
            _download_files(open_path(folder, spec.storage.connection), target)
        except OSError as error:
            raise VerificationError(
                f"the input cannot be copied: {error}",
                expected="the folder of the whole input, and room for it on this host",
                where=folder,
                next_step="check that the object store is reachable and that the disk has room",
            ) from error
        files.append(str(target))
    return tuple(files)


def _download_files(source: Location, target: Path) -> None:
    for entry in source.entries():
        if not entry.is_dir and not entry.name.startswith((".", "_")):
            download(source / entry.name, target / entry.name)


def _committed(spec: StreamSpec, run: FinishedRun) -> list[_Log]:
    """Of each source: committed batch -> URIs of the files that it read."""
    last = -1 if run.committed is None else run.committed
    try:
        logs = [file_source_log(run.checkpoint, source) for source in range(len(spec.source.folders))]
    except (CheckpointError, Damaged, OSError, ValueError) as error:
        raise unknown_input(run.checkpoint.path, error) from error
    return [{batch: uris for batch, uris in log.items() if batch <= last} for log in logs]


def _local_files(run: FinishedRun, logs: Sequence[_Log], moved: Mapping[str, str]) -> dict[int, tuple[Path, ...]]:
    """Batch -> the files that it read. `moved`: folder of a source -> where its files are on this host."""
    try:
        return {
            batch: tuple(_local(name, moved) for log in logs for name in log.get(batch, ()))
            for batch in sorted(set().union(*logs))
        }
    except ValueError as error:
        raise unknown_input(run.checkpoint.path, error) from error


def _read_again(spec: StreamSpec, logs: Sequence[_Log], first: int) -> list[str]:
    judged = [{batch: log[batch] for batch in log if batch >= first} for log in logs]
    recursive = is_recursive(spec.source.options)
    found = (
        read_again(log, folder=folder, recursive=recursive)
        for folder, log in zip(spec.source.folders, judged, strict=True)
    )
    return [str(again) for of_folder in found for again in of_folder]


def _local(uri: str, moved: Mapping[str, str]) -> Path:
    """Where a file that a batch read is on this host. Raises ValueError if it is not on this host."""
    path = to_path(uri)
    folder, _, name = path.rpartition("/")
    if folder in moved:
        return Path(moved[folder], name)
    if not path.startswith("/"):
        raise ValueError(f"{uri} is not a local file")
    return Path(path)


def _disorder(spec: StreamSpec, files: Mapping[int, Sequence[Path]], bounded_from: int | None) -> list[str]:
    """Deviations from Spark's order of files, of files on this host, whose times are those that Spark saw."""
    latest_first = spec.source.options.get("latestFirst", "false").lower() == "true"
    if bounded_from is None or latest_first or "source" in spec.stored:
        return []
    judged = {batch: paths for batch, paths in files.items() if batch >= bounded_from}
    here = {path for paths in judged.values() for path in paths if path.is_file()}
    return disorder(judged, {path: path.stat().st_mtime_ns // 1_000_000 for path in here})
