"""Removes the folders of ended drivers beyond a limit, and the temporary files that a driver left."""

import shutil
from pathlib import Path
from typing import Final

from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.exits.driver_ids import driver_folders
from streamwarden.services.fleet.exits.liveness import process_alive

KEPT_FOLDERS: Final = 50
"""Folders of ended drivers that are kept for each stream; older ones are removed at the next start."""


def clean(data: Path, stream: str) -> None:
    """Remove old folders, and the temporary files of drivers whose supervisor process was killed before it could.

    The newest folder stays as it is, and so does every folder whose driver has no recorded end.
    """
    folders = sorted((path for path in driver_folders(data, stream).iterdir() if path.is_dir()), reverse=True)
    for index, folder in enumerate(folders[1:]):
        if process_alive(folder) is False:
            files.tidy(folder)
            if index >= KEPT_FOLDERS:
                shutil.rmtree(folder, ignore_errors=True)
