"""The fork's own input, a folder of links to the files of its origin, as a drill breaks it."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.sources import file_source_log, source_entries
from streamwarden.checkpoint.formats.uris import file_name, to_path
from streamwarden.drills.faults.input.own_input import INPUTS
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.services.drilling.ports import Offer
from streamwarden.sources.files.reading_back import input_files

TAKEN_OUT: Final = "input-taken-out"
"""The folder beside a fork's input with the links that are not in it for a while."""

AGAIN: Final = "-again-by-a-drill"
"""What the name of a copy has before its suffix."""

_MILLISECOND: Final = 1_000_000
"""Nanoseconds."""


class ForkInputs:
    """Implements `InputFiles`. Touches links alone, never a file of the origin."""

    def files_of(self, fork: ForkView, batch: int) -> Sequence[str]:
        """The files that a planned batch reads, as paths below the fork's input. Raises DrillAborted if its input is
        not a folder that the drill made, CheckpointError if the source's log cannot be read."""
        root = _input(fork)
        read = file_source_log(open_path(fork.checkpoint, fork.spec.storage.connection)).get(batch, ())
        return [str(Path(to_path(uri)).relative_to(root)) for uri in read]

    def missing(self, fork: ForkView, batch: int) -> Sequence[str]:
        return [file for file in self.files_of(fork, batch) if not (_input(fork) / file).exists()]

    def take_out(self, fork: ForkView, file: str) -> None:
        aside = _input(fork).with_name(TAKEN_OUT) / file
        aside.parent.mkdir(parents=True, exist_ok=True)
        (_input(fork) / file).rename(aside)

    def put_back(self, fork: ForkView) -> bool:
        """Move every link that was taken out to where it was; False: there is none. May run again."""
        aside = _input(fork).with_name(TAKEN_OUT)
        moved = [path for path in aside.rglob("*") if path.is_symlink() or path.is_file()]
        for path in moved:
            path.rename(_input(fork) / path.relative_to(aside))
        return bool(moved)

    def unread(self, fork: ForkView) -> Sequence[str]:
        """The files whose names no batch has planned, oldest first."""
        root = _input(fork)
        return [str(path.relative_to(root)) for path in _unread(fork)]

    def read_last(self, fork: ForkView, files: Sequence[str]) -> None:
        """Replace each link by a copy that is newer than all other files, and than the copy before it."""
        newest = max(path.stat().st_mtime_ns for path in _files(fork))
        for number, file in enumerate(files, start=1):
            _copy(_input(fork) / file, _input(fork) / file, newest + number * _MILLISECOND)

    def double(self, fork: ForkView, file: str) -> str:
        """`a.json.gz` becomes `a-again-by-a-drill.json.gz`, a millisecond older than the oldest unread file, and not
        older than a file that was read."""
        source = _input(fork) / file
        stem, dot, suffix = source.name.partition(".")
        copy = source.with_name(f"{stem}{AGAIN}{dot}{suffix}")
        waiting = [path for path in _unread(fork) if path != copy]
        read = max(path.stat().st_mtime_ns for path in _files(fork) if path not in waiting and path != copy)
        next_one = waiting[0].stat().st_mtime_ns - _MILLISECOND if waiting else read
        _copy(source, copy, max(read, next_one))
        return str(copy.relative_to(_input(fork)))

    def copies(self, fork: ForkView) -> Sequence[str]:
        """The files with such a name beside the file that they are a copy of."""
        root = _input(fork)
        return [
            str(path.relative_to(root))
            for path in _files(fork)
            if AGAIN in path.name and path.with_name(path.name.replace(AGAIN, "", 1)).exists()
        ]


def _files(fork: ForkView) -> list[Path]:
    """The files of the fork's input that Spark would read."""
    _input(fork)
    return sorted(path for folder in fork.spec.source.folders for path in input_files(Path(folder)))


def _unread(fork: ForkView) -> list[Path]:
    """Files that no batch has planned, in Spark's order: by their times in milliseconds."""
    checkpoint = open_path(fork.checkpoint, fork.spec.storage.connection)
    planned = {
        file_name(file.path)
        for source in range(len(fork.spec.source.folders))
        for files in source_entries(checkpoint, source).values()
        for file in files
    }
    waiting = [path for path in _files(fork) if path.name not in planned]
    return sorted(waiting, key=lambda path: path.stat().st_mtime_ns // _MILLISECOND)


def _copy(source: Path, target: Path, modified_ns: int) -> None:
    """A copy of a file with this time. It appears whole, by a rename: Spark does not read a name with a dot."""
    hidden = target.with_name(f".{target.name}")
    shutil.copyfile(source, hidden)
    os.utime(hidden, ns=(modified_ns, modified_ns))
    hidden.rename(target)


def _input(fork: ForkView) -> Path:
    """The folder that the fork reads. Raises DrillAborted if it is not below the folder of the fork."""
    path = str(fork.spec.source.path or "")
    home = Path(fork.checkpoint).parent
    if "://" in path or home not in Path(path).parents:
        raise DrillAborted(
            f"the fork reads {path or 'no files'}, which is not a folder that the drill made",
            expected="a fork with its own links to the input, on this host",
            where=f"the drill of {fork.origin}",
            next_step="leave out `fork.at`, or drill this stream with another fault",
        )
    return Path(path)


OFFERS: Final = (Offer(INPUTS, lambda _: ForkInputs()),)
