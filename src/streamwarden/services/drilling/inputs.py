"""The fork's own input, a folder of links to the files of its origin, as a drill breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.sources import file_source_log
from streamwarden.checkpoint.uris import to_path
from streamwarden.drills.ports import ForkView
from streamwarden.errors import DrillAborted

TAKEN_OUT: Final = "input-taken-out"
"""The folder beside a fork's input with the links that are not in it for a while."""


class ForkInputs:
    """Implements `drills.ports.InputFiles`. Touches links alone, never a file of the origin."""

    def files_of(self, fork: ForkView, batch: int) -> Sequence[str]:
        """The files that a planned batch reads, as paths below the fork's input. Raises DrillAborted if its input is
        not a folder that the drill made, CheckpointError if the source's log cannot be read."""
        root = _input(fork)
        read = file_source_log(open_path(fork.checkpoint, fork.spec.storage.connection)).get(batch, ())
        return [str(Path(to_path(uri)).relative_to(root)) for uri in read]

    def missing(self, fork: ForkView, batch: int) -> Sequence[str]:
        """Those of them that do not exist."""
        return [file for file in self.files_of(fork, batch) if not (_input(fork) / file).exists()]

    def take_out(self, fork: ForkView, file: str) -> None:
        """Move the link out of the input."""
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
