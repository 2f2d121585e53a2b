"""The folder of each upgrade of a stream: its journal, both texts of the stream's file, the preflight and its logs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from streamwarden import disk
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver_folder import read_document, write_document
from streamwarden.lifecycle.savepoints.savepoint import is_id, savepoint_id
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.lifecycle.upgrades.preflight import Preflight
from streamwarden.redaction import redacted
from streamwarden.stream.spec import StreamSpec

FOLDER: Final = "upgrades"
"""Of the data folder."""

JOURNAL: Final = "upgrade.json"
PREFLIGHT: Final = "preflight.json"
OLD, NEW, CHANGED = "before.yaml", "after.yaml", "changed.yaml"
"""The stream's file as it was, as the upgrade makes it, and what a person has made of that meanwhile."""

BESIDE: Final = "beside"
"""Of the version that runs beside the old one: its folder, its log, and what was compared."""

KEPT: Final = 10
"""Preflights of a stream that are kept, with their logs. What has a journal stays."""

_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True)
class Upgrades:
    """The upgrades of one stream. `root`: holds a folder for each."""

    stream: str
    root: Path

    @classmethod
    def of(cls, spec: StreamSpec) -> Self:
        return cls(spec.name, Path(spec.data) / FOLDER / spec.name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Only one process upgrades a stream, or tries an upgrade. Raises CheckpointError if another one does."""
        disk.private_folder(self.root, below=self.root.parent.parent)
        with disk.locked(self.root / _LOCK, wait=0) as held:
            if held is None:
                raise CheckpointError(
                    f"another process upgrades {self.stream}, or tries an upgrade of it",
                    expected="one upgrade at a time",
                    where=str(self.root),
                    next_step="wait for its end",
                )
            yield

    def new(self, now: float) -> Path:
        """The folder of a new upgrade. Of those that were tried alone, the oldest are removed. Raises OSError."""
        tried = sorted(path for path in self.root.glob("*") if is_id(path.name) and not (path / JOURNAL).exists())
        for old in tried[: -KEPT + 1]:
            disk.remove_folder(old, below=self.root)
        while True:
            folder = self.root / savepoint_id(now)
            try:
                folder.mkdir(mode=disk.PRIVATE_FOLDER)
            except FileExistsError:
                now += 1
            else:
                return folder

    def open(self) -> tuple[Path, Upgrade] | None:
        """The upgrade that has begun and has not ended, with its folder; None: there is none."""
        folders = sorted(
            (path.parent for path in self.root.glob(f"*/{JOURNAL}") if is_id(path.parent.name)), reverse=True
        )
        for folder in folders:
            upgrade = read_journal(folder)
            if not upgrade.step.is_end:
                return folder, upgrade
        return None


def write_journal(folder: Path, upgrade: Upgrade, **changes: Any) -> Upgrade:
    """The upgrade with these changes, written. Raises OSError."""
    changed = replace(upgrade, **changes)
    write_document(folder / JOURNAL, asdict(changed))
    return changed


def is_open(folder: Path) -> bool:
    """Whether the upgrade of this folder has begun and has not ended. Raises as `read_journal` does."""
    return (folder / JOURNAL).exists() and not read_journal(folder).step.is_end


def read_journal(folder: Path) -> Upgrade:
    """Raises CheckpointError if it cannot be understood."""
    document = read_document(folder / JOURNAL)
    try:
        upgrade = Upgrade(**(document or {}))
        return replace(upgrade, step=Step(upgrade.step))
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            "the journal of an upgrade cannot be read",
            expected="the document that `streamwarden upgrade` wrote",
            where=str(folder / JOURNAL),
            next_step=f"compare the stream's file with {OLD} and {NEW} beside it, put one of them there, and remove "
            "this folder",
        ) from error


def write_preflight(folder: Path, found: Preflight) -> None:
    """For people: what the preflight found. Raises OSError."""
    disk.replace(folder / PREFLIGHT, json.dumps(redacted(asdict(found)), indent=1), mode=disk.PRIVATE)
