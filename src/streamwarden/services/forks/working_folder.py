"""The working folder of a fork, and then of its twins: relative paths of the job resolve there.

A job may keep something beside Spark, such as a marker or a small database. In the stream's own folder it would change
the stream, and the fork and its twin would share it, so that a loss that it causes would be in both. So a fork works in
a folder of its own. It has links to the folders of the stream's data folder, and copies of the files that were there
before the stream first ran. Each twin begins with such a folder again, under the same path, after the fork has ended.
"""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from streamwarden.checkpoint.formats.layout import METADATA
from streamwarden.config.rules import RESERVED_FOLDERS
from streamwarden.lifecycle.driver_folder import read_document, write_document
from streamwarden.lifecycle.location import plain_path
from streamwarden.services.forks.files import remove_folder, require_own
from streamwarden.stream.spec import StreamSpec

WORK: Final = "work"
"""The folder, in that of the drill's run."""

_ORIGIN: Final = "work.json"

_OURS: Final = ("streamwarden.db", ".")
"""What the names of files begin with that a job does not read: those of the store, and hidden ones."""

_SMALL: Final = 100 * 2**20
"""Bytes; a larger file is linked."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Args:
    data: the stream's data folder.
    before: files that are not older (Unix seconds) may be the job's own; None: it never ran.
    """

    data: str
    before: float | None


def in_working_folder(forked: StreamSpec, origin: StreamSpec, run: Path) -> StreamSpec:
    """The fork of `origin`, which works in a folder below that of a run; as it is if the stream's data folder is not
    known. Raises CheckpointError, OSError."""
    if not origin.data or not Path(origin.data).is_dir():
        return forked
    work = make_working_folder(origin, run.absolute())
    return replace(forked, data=str(work), data_url="", fork=forked.fork and replace(forked.fork, data=origin.data))


def make_working_folder(origin: StreamSpec, run: Path) -> Path:
    """The folder for the fork of `origin`, in the folder of a run."""
    described = _Origin(data=origin.data, before=min(_first_starts(origin), default=None))
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_document(run / _ORIGIN, asdict(described))
    return _fill(run, described)


def renew_working_folder(run: Path) -> None:
    """The folder as it was before the job first ran in it; nothing if the run has none."""
    document = read_document(run / _ORIGIN)
    if document is not None:
        _fill(run, _Origin(**document))


def _fill(run: Path, origin: _Origin) -> Path:
    work = run / WORK
    remove_folder(work, below=run.parent)
    require_own(work, below=run.parent)
    work.mkdir(mode=0o700)
    for entry in sorted(Path(origin.data).iterdir()):
        if entry.name in RESERVED_FOLDERS or entry.name.startswith(_OURS):
            continue
        if entry.is_dir():
            (work / entry.name).symlink_to(entry, target_is_directory=True)
        elif entry.is_file() and (origin.before is None or entry.stat().st_mtime < origin.before):
            _take(entry, work / entry.name)
    return work


def _take(file: Path, target: Path) -> None:
    if file.stat().st_size > _SMALL:
        target.symlink_to(file)
    else:
        shutil.copy2(file, target)


def _first_starts(origin: StreamSpec) -> Iterator[float]:
    """When the queries of the stream first started, by their checkpoints on this host."""
    for place in filter(None, (origin.checkpoint, *origin.queries.values())):
        root = Path(plain_path(place))  # in an object store: no such folder
        for file in (root / METADATA, *root.glob(f"*/{METADATA}")):
            if file.is_file():
                yield file.stat().st_mtime
