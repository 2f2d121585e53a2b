"""Removes what ended drivers leave in the data folder: their secrets, their temporary files, and folders beyond a
limit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.exits.driver_ids import driver_folders
from streamwarden.services.fleet.exits.liveness import process_alive

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

KEPT_FOLDERS: Final = 50
"""Folders of ended drivers that are kept for each stream; older ones are removed."""


def clean(store: Store, data: Path, stream: str) -> int:
    """Remove the old folders of a stream, and what drivers left that had no time to: those whose supervisor process was
    killed, and those whose host died. Returns how many folders were removed. Raises StoreError.

    Every folder stays whose driver has no recorded end. Of the newest one only the secrets go: if its driver is cut off
    from the store and nobody has taken its lease over, it may still run, and it needs its temporary files.
    """
    root = driver_folders(data, stream)
    folders = sorted((path for path in root.iterdir() if path.is_dir()), reverse=True) if root.is_dir() else []
    ended = _ended(store, folders)
    for folder in folders:
        if folder in ended:
            files.tidy(folder) if folder != folders[0] else files.forget_secrets(folder)
    old = [folder for folder in folders[KEPT_FOLDERS + 1 :] if folder in ended]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return sum(not folder.exists() for folder in old)


def _ended(store: Store, folders: Sequence[Path]) -> set[Path]:
    """The folders whose driver has ended. Of one that ran on another host, or here before a restart of the host, the
    store knows."""
    alive = {folder: process_alive(folder) for folder in folders}
    unseen = [folder.name for folder, lives in alive.items() if lives is None]
    recorded = store.drivers.ended(unseen)
    return {folder for folder, lives in alive.items() if lives is False or folder.name in recorded}
