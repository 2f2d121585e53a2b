"""The scope of a crash matrix, the files it exchanges with its Spark program, and the files of a state."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.drills.crash_states import CrashState, Operation, files_of

TASK: Final = "task.json"
OUTCOMES: Final = "outcomes.jsonl"

BATCHES: Final = 12
"""Batches of the run without a crash: in the tenth Spark compacts its logs of files."""

AROUND: Final = (7, 8, 9, 10)
"""The batches around which the states lie: before, in and after the compaction. Around three batches a kill leaves some
80 states of a stream whose rows go into a table, and around four it leaves a hundred."""

PARTS = ("checkpoint", "output")
"""The folders of a stream that a state has."""


@dataclass(frozen=True, slots=True)
class Record:
    """The operations of a run, and the folder with the content of each file."""

    operations: Sequence[Operation]
    contents: Path

    def lay(self, state: CrashState, into: Path) -> None:
        """Make the files of `state` in the new folder `into`: links, and a copy for a torn file.

        Hard links are safe: Spark replaces a file by a rename, and never writes into an existing one.
        """
        for part in PARTS:
            (into / part).mkdir(parents=True)
        self.link(files_of(self.operations, state), into, torn=state.torn)

    def link(self, files: Mapping[str, int], into: Path, *, torn: int | None = None) -> None:
        """Link files of the record into a folder. `files`: path -> operation."""
        for path, index in files.items():
            source, target = self.contents / self.operations[index].content, into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if index == torn:
                content = source.read_bytes()
                target.write_bytes(content[: len(content) // 2])
            else:
                os.link(source, target)
