"""The files of a fork's checkpoint on this host: copied, damaged, compared with the copy, restored."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Damage
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.state import StateStore, is_scratch, state_stores
from streamwarden.drills.faults.checkpoint_damage import FILES, DamagedFile, FileDamage
from streamwarden.drills.records.types import ForkView
from streamwarden.services.drilling.ports import Offer

COPY: Final = "checkpoint-copy"
"""The folder beside a fork's checkpoint with the files as they were before the damage, as hard links: Spark never
writes into a file that it has closed, and neither does a damage."""


class ForkCheckpointFiles:
    """Implements `CheckpointFiles`. Only for a fork on this host, and only while no driver runs."""

    def stores(self, fork: ForkView) -> Sequence[StateStore]:
        return state_stores(open_path(fork.checkpoint))

    def predict(self, fork: ForkView) -> Sequence[Damage]:
        sink = fork.spec.sink
        output = open_path(str(sink.path)) if sink.MANIFEST else None
        return read_checkpoint(open_path(fork.checkpoint), output=output).findings

    def keep(self, fork: ForkView) -> None:
        copy = _copy(fork)
        part = copy.with_name(f"{COPY}.part")
        for stale in (copy, part):
            disk.remove_folder(stale, below=stale.parent)
        shutil.copytree(fork.checkpoint, part, copy_function=os.link)
        part.rename(copy)

    def damage(self, fork: ForkView, paths: Sequence[str], damage: FileDamage) -> None:
        """Damage these files of the checkpoint. A lost file takes its checksum file with it."""
        for path in paths:
            target = Path(fork.checkpoint) / path
            if damage is FileDamage.LOST and target.is_dir():
                disk.remove_folder(target, below=Path(fork.checkpoint))
            elif damage is FileDamage.LOST:
                target.unlink()
                target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
            else:
                content = bytearray(target.read_bytes())
                target.unlink()  # its content is shared with the copy
                target.write_bytes(_DAMAGES[damage](content))

    def damaged(self, fork: ForkView) -> Sequence[DamagedFile]:
        """The files of the copy that are gone or have other content. Empty if there is no copy."""
        copy, checkpoint = _copy(fork), Path(fork.checkpoint)
        return [
            DamagedFile(path=path, before=len(before), after=None if after is None else len(after))
            for path, before in _contents(copy)
            if (after := _read(checkpoint / path)) != before
        ]

    def restore(self, fork: ForkView) -> bool:
        copy, checkpoint = _copy(fork), Path(fork.checkpoint)
        if not copy.is_dir():
            return False
        disk.remove_folder(checkpoint, below=checkpoint.parent)
        copy.rename(checkpoint)
        return True


def _halved(content: bytearray) -> bytes:
    return bytes(content[: len(content) // 2])


def _flipped(content: bytearray) -> bytes:
    content[len(content) // 2] ^= 0x40
    return bytes(content)


_DAMAGES: Final[Mapping[FileDamage, Callable[[bytearray], bytes]]] = {
    FileDamage.TRUNCATED: _halved,
    FileDamage.FLIPPED: _flipped,
}


def _copy(fork: ForkView) -> Path:
    return Path(fork.checkpoint).with_name(COPY)


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(path below the folder, content) of each file that is part of a checkpoint."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not is_scratch(path.name):
            yield str(path.relative_to(folder)), path.read_bytes()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


OFFERS: Final = (Offer(FILES, lambda _: ForkCheckpointFiles()),)
