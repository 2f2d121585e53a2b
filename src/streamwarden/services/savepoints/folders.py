"""The folder of one savepoint: how a process claims it, how it is emptied, and how it goes.

Files of this host and objects of a store are treated alike. What is killed at any moment leaves a folder with its
manifest, or one without.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.adapters.storage import moving
from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.savepoints.savepoint import CLAIM, MANIFEST, is_use, use_name


def claim_new(place: Location) -> bool:
    """Create the folder for this process; False: it is there already. Raises OSError."""
    if isinstance(place.fs, LocalFiles):
        folder = Path(place.path)
        folder.parent.mkdir(parents=True, exist_ok=True, mode=disk.PRIVATE_FOLDER)
        try:
            folder.mkdir(mode=disk.PRIVATE_FOLDER)
        except FileExistsError:
            return False
    elif _names(place):
        return False
    claim(place)
    return True


def claim(place: Location, name: str = CLAIM) -> None:
    """Say that this process works on the folder. Raises OSError."""
    process = processes.identity(os.getpid())
    assert process is not None  # it is this process
    document = {
        "process": {"host": process.host, "pid": process.pid, "started_at": process.started_at},
        "at": time.time(),
    }
    (place / name).write(json.dumps(document).encode())


def claim_of(place: Location, name: str = CLAIM) -> tuple[ProcessIdentity, float] | None:
    """Who works on the folder, and since when (Unix seconds); None: nobody says so. Raises OSError."""
    try:
        document: dict[str, Any] = json.loads((place / name).read())
        return ProcessIdentity(**document["process"]), float(document["at"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def release(place: Location) -> None:
    """This process has ended its work on the folder. Raises OSError."""
    moving.remove(place / CLAIM)


@contextmanager
def in_use(place: Location) -> Iterator[None]:
    """Keep the savepoint from being deleted while this process reads it. A folder that this user may not write to is
    read without that."""
    name = use_name(uuid.uuid4().hex[:12])
    with suppress(OSError):
        claim(place, name)
    try:
        yield
    finally:
        with suppress(OSError):
            moving.remove(place / name)


def uses_of(place: Location) -> list[tuple[ProcessIdentity, float]]:
    """The processes that said that they read the savepoint, and since when. Raises OSError."""
    claims = (claim_of(place, name) for name in _names(place) if is_use(name))
    return [claim for claim in claims if claim is not None]


def remove(place: Location) -> bool:
    """Remove a savepoint with all its files; False: it was not there. The manifest goes first: a folder without it is
    none. Raises OSError."""
    try:
        place.names()
    except FileNotFoundError:
        return False
    moving.remove(place / MANIFEST)
    claim(place)
    empty(place)
    if isinstance(place.fs, LocalFiles):
        return disk.remove_folder(Path(place.path), below=Path(place.path).parent)
    moving.remove(place)  # with the claim, and the marker of an empty folder that a client leaves
    above = Location(place.fs, place.path.rpartition("/")[0])
    if not _names(above):
        moving.remove(above)
    return True


def empty(place: Location) -> None:
    """Remove everything that was copied; the claim stays. Raises OSError."""
    for name in _names(place):
        if name != CLAIM:
            moving.remove(place / name)


def _names(place: Location) -> list[str]:
    try:
        return list(place.names())
    except FileNotFoundError:
        return []


def unusable(path: str, error: OSError) -> CheckpointError:
    """The error for storage that refuses or has no room."""
    return CheckpointError(
        f"the folder of the savepoint cannot be used: {error.strerror or error}",
        expected="a place that this user may list, read, write and delete, with room for what cannot be linked",
        where=path,
        next_step="make room or correct the permissions, or name another folder with `savepoints.folder`",
    )
