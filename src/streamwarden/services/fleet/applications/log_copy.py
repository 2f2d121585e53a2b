"""Copies the log of an ended driver from its cluster into the driver's folder, where it is read like any other's."""

from pathlib import Path
from typing import Final

from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.applications import Application
from streamwarden.waiting import wait_until

MOST: Final = 2**20
"""Bytes that are kept of each file of the log."""

THERE_WITHIN: Final = 20.0
"""Seconds from the end of an application until its log is there; the cluster moves it to its storage first."""


def copy_log(application: Application, folder: Path) -> bool:
    """Append the log to that of the folder; False: there is none in time.

    Raises ProcessError if it cannot be read here, OSError if the folder cannot be written.
    """

    def found() -> bool:
        text = application.log(MOST)
        if text:
            with (folder / files.LOG).open("a", encoding="utf-8") as log:
                log.write(text)
        return bool(text)

    return folder.is_dir() and wait_until(found, within=THERE_WITHIN, every=1.0)
