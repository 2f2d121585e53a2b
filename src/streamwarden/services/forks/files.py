"""The files of a fork, on this host or in the storage of its origin: how they get there, and how they go."""

from collections.abc import Collection, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path

from streamwarden import disk
from streamwarden.adapters.storage.files import download, link_or_copy, open_path
from streamwarden.adapters.storage.moving import bring, remove
from streamwarden.checkpoint.filesystem import FileSystem, Location
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.plan import CopyStep, Link, Write
from streamwarden.stream.spec import STORED


def carry_out(
    steps: Iterable[CopyStep], origin: FileSystem, connection: str | None, *, skip_purged: bool = False
) -> None:
    """Write, link and copy, in the order of the steps.

    Args:
        origin: the file system that the links' sources are on. What goes into an object store or HDFS comes from there,
            or from this host.
        connection: to that store.
        skip_purged: leave out a link whose source is gone; otherwise that raises FileNotFoundError.
    """
    made: set[Path] = set()
    for step in steps:
        if STORED.match(step.target):
            stored = open_path(step.target, connection)
            match step:
                case Write(text=text):
                    stored.write(text.encode())
                case Link(source=source):
                    bring(open_path(source, connection), stored)
            continue
        target = Path(step.target)
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        match step:
            case Write(text=text):
                target.write_text(text, encoding="utf-8")
            case Link(source=source):
                with suppress(FileNotFoundError) if skip_purged else nullcontext():
                    link_or_copy(Location(origin, source), target)


def require_empty(path: str, connection: str | None = None) -> None:
    """Raises CheckpointError if there is something at `path`, or it cannot be listed."""
    try:
        if not open_path(path, connection).names():
            return
    except FileNotFoundError:
        return
    except NotADirectoryError:
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    raise CheckpointError(
        "the fork's folder is not empty",
        expected="a folder that does not exist yet or is empty",
        where=path,
        next_step="remove what an earlier fork left, or choose another folder",
    )


def require_own(path: Path, *, below: Path) -> None:
    """Raises CheckpointError if `path`, or a folder between it and `below`, is a symbolic link."""
    link = disk.link_in(path, below=below)
    if link is not None:
        raise CheckpointError(
            f"{link} is a symbolic link to {link.readlink()}: nothing behind it is written or removed",
            expected="a folder that the drill created itself",
            where=str(path),
            next_step="find out what created the link, remove the link, and heal the drill again",
        )


def remove_folder(path: Path, *, below: Path) -> bool:
    """Remove a folder of a fork with all that is in it, and never anything outside of `below`; False: it was not there.

    Raises CheckpointError for a symbolic link, and if the folder cannot be removed.
    """
    require_own(path, below=below)
    try:
        return disk.remove_folder(path, below=below)
    except OSError as error:
        raise _unusable(str(path), error) from error


def bring_home(path: str, into: Path, connection: str | None, *, skip: Collection[str] = ()) -> None:
    """Copy a folder of the store to this host, if it is there. Files that are here already are copied again.

    Args:
        skip: names of files and folders that are left out.

    Raises CheckpointError if the store does not allow it, or there is no room.
    """
    stored = open_path(path, connection)
    try:
        for name, _ in stored.walk(skip=lambda name: name in skip):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            download(stored / name, into / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from error


def remove_stored(path: str, connection: str | None) -> bool:
    """Remove a folder of the store with all that is in it; False: it was not there.

    Raises CheckpointError if the store does not allow it.
    """
    try:
        return remove(open_path(path, connection))
    except OSError as error:
        raise _unusable(path, error) from error


def remove_empty(path: str, connection: str | None) -> None:
    """Remove the marker of an empty folder of the store: a client leaves one when it removes the last file.

    Raises CheckpointError if the store does not allow it.
    """
    stored = open_path(path, connection)
    try:
        if not stored.names():
            remove(stored)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: str, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"the fork's folder cannot be used: {error}",
        expected="a place that this user or key may list, read, write and delete, and room on this host",
        where=path,
        next_step="see that the storage runs and what its user or key may do there, or name another place (`fork.at`)",
    )
