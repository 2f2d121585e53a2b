"""Removes the folders of old drills and of the drivers of their forks, what drivers left that could not clean up,
leftovers of killed audits, and old questions about state.

The journals of the drills stay in the store.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.services.auditing.work import remove_abandoned
from streamwarden.services.fleet.exits.cleaning import clean
from streamwarden.services.state.looks import Looks
from streamwarden.services.state.requested.assignments import Assignments
from streamwarden.services.state.requested.deletions import Deletions

KEEP: Final = 30 * 86400.0
"""Seconds for which the folder of a drill (journal, report, fork) is kept after the drill has ended."""


@dataclass(frozen=True, slots=True)
class RemovedFolders:
    """Counts of removed folders, and of what people asked of a state: looks, and changes."""

    drills: int
    fork_drivers: int
    drivers: int
    audits: int
    looks: int
    changes: int


def sweep(store: Store, data: Path, now: float, *, keep: float = KEEP) -> RemovedFolders:
    """Remove the folders of drills and drivers that ended more than `keep` seconds ago. A folder whose drill or driver
    still runs, or whose end was never recorded, is kept. A stream's own drivers are cleaned up after, wherever they
    ran. Of audits, the files of the killed ones go at once, and all evidence stays. Looks at state go after an hour,
    and changes of it that nobody carried out after a day.

    Raises StoreError if the store is unavailable: then no folder was removed that it might still need.
    """
    drills = [folder for folder in _folders(data / "drills") if _drill_is_over(store, folder, now - keep)]
    forks = [
        folder
        for folder in _folders(data / "drivers")
        if is_fork(folder.name) and _drivers_are_over(store, folder, now - keep)
    ]
    for folder in (*drills, *forks):
        shutil.rmtree(folder, ignore_errors=True)
    return RemovedFolders(
        drills=sum(not folder.exists() for folder in drills),
        fork_drivers=sum(not folder.exists() for folder in forks),
        drivers=sum(clean(store, data, folder.name) for folder in _folders(data / "drivers")),
        audits=remove_abandoned(data),
        looks=Looks.remove_expired(data, now),
        changes=sum(kind.remove_expired(data, now) for kind in (Deletions, Assignments)),
    )


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _drill_is_over(store: Store, folder: Path, before: float) -> bool:
    run = store.journals.get(folder.name)
    return run is not None and run.ended_at is not None and run.ended_at < before


def _drivers_are_over(store: Store, folder: Path, before: float) -> bool:
    latest = store.drivers.latest(folder.name)
    return latest is not None and latest.exit is not None and latest.exit.ended_at < before
