"""Records every change of the files below a folder, in the order in which the kernel reports them (inotify).

Each content is kept as a hard link at the moment at which its file gets its name, so that a file that is removed or
replaced later can still be laid out.
"""

import os
import threading
from collections import defaultdict
from contextlib import suppress
from os import link
from pathlib import Path
from typing import Any, Final, Self

from inotify_simple import INotify, flags

from streamwarden.drills.crash_states import Change, Operation
from streamwarden.errors import CheckpointError

_WATCHED: Final = flags.CREATE | flags.CLOSE_WRITE | flags.MOVED_FROM | flags.MOVED_TO | flags.DELETE

_PAUSE_MS: Final = 20
"""Milliseconds after which the watching thread looks whether it has to end."""


_SHOWN: Final = 3
"""Files that an error names."""


class Recording:
    """Watches the folder `root` while it is entered. `operations` is whole after it is left.

    Args:
        contents: a folder on the same disk that gets the content of each file.

    Raises CheckpointError when it is left, if the record is not whole.
    """

    def __init__(self, root: Path, contents: Path) -> None:
        self._root, self._contents = root, contents
        self._folders: dict[int, Path] = {}
        self._found: list[Operation | None] = []
        self._written: defaultdict[str, list[int]] = defaultdict(list)
        self._moving: dict[int, str] = {}
        self._kept: dict[tuple[str, int, int], int] = {}
        self._leaving = threading.Event()
        self._overflow = False
        self._missed: dict[str, None] = {}
        self._failure: OSError | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The changes, oldest first. A file that only ever had a temporary name is not among them."""
        present: set[str] = set()
        operations = []
        for operation in self._found:
            if operation is None or (operation.change is Change.REMOVED and operation.path not in present):
                continue
            (present.discard if operation.change is Change.REMOVED else present.add)(operation.path)
            operations.append(operation)
        return tuple(operations)

    def __enter__(self) -> Self:
        self._contents.mkdir(parents=True, exist_ok=True)
        self._notify = INotify()
        self._watch(self._root)
        self._thread = threading.Thread(target=self._record, name="recording", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leaving.set()
        self._thread.join()
        self._notify.close()
        problem = self._problem()
        if kind is None and problem is not None:
            raise CheckpointError(
                problem,
                expected="a report of each change of a file, and time to keep the file",
                where=str(self._root),
                next_step="try again on a host with less load, or raise its settings fs.inotify.max_queued_events and "
                "fs.inotify.max_user_watches",
            ) from self._failure

    def _problem(self) -> str | None:
        """Why the record is incomplete, or None."""
        if self._failure is not None:
            return f"the recording ended before the run did: {self._failure}"
        if self._missed:
            return f"{', '.join(list(self._missed)[:_SHOWN])} was removed before its content was kept"
        return "the kernel dropped reports" if self._overflow else None

    def _record(self) -> None:
        try:
            self._read()
        except OSError as error:
            self._failure = error

    def _read(self) -> None:
        while True:
            last = self._leaving.is_set()
            events = self._notify.read(timeout=_PAUSE_MS)
            for event in events:
                self._take(event)
            if last and not events:
                return

    def _take(self, event: Any) -> None:
        if event.mask & flags.Q_OVERFLOW:
            self._overflow = True
            return
        folder = self._folders.get(event.wd)
        if folder is None or not event.name:
            return
        path = folder / event.name
        if event.mask & flags.ISDIR:
            if event.mask & (flags.CREATE | flags.MOVED_TO):
                self._watch(path)
        elif event.mask & flags.CLOSE_WRITE:
            self._written[self._name(path)].append(self._keep(path, Change.WRITTEN))
        elif event.mask & flags.MOVED_TO:
            self._keep(path, Change.RENAMED, temporary=self._moving.pop(event.cookie, ""))
        elif event.mask & flags.MOVED_FROM:
            self._moving[event.cookie] = self._name(path)
            self._forget(path)  # it was written under a temporary name
        elif event.mask & flags.DELETE:
            self._found.append(Operation(path=self._name(path), change=Change.REMOVED))

    def _watch(self, folder: Path) -> None:
        """Watch a folder with all that is in it already: files may come before the watch does. One that has a temporary
        name is renamed while the watch is there, which reports it. A folder that was removed meanwhile has left
        nothing, like those in which Hadoop prepares files."""
        with suppress(FileNotFoundError):
            self._folders[self._notify.add_watch(folder, _WATCHED)] = folder
            for entry in sorted(os.scandir(folder), key=_changed_at):
                if entry.is_dir(follow_symlinks=False):
                    self._watch(Path(entry.path))
                elif folder != self._root:
                    path = Path(entry.path)
                    self._written[self._name(path)].append(self._keep(path, Change.RENAMED))

    def _keep(self, path: Path, change: Change, temporary: str = "") -> int:
        """Note a file with its content; it may be gone already, if it only had a temporary name."""
        with suppress(FileNotFoundError):
            status = path.stat()
            version = self._name(path), status.st_ino, status.st_mtime_ns
            if version in self._kept:  # listed when its folder was new, and reported afterwards
                return self._kept[version]
            self._kept[version] = len(self._found)
        number = len(self._found)
        content = f"{number:06}"
        try:
            link(path, self._contents / content)
        except FileNotFoundError:
            self._found.append(None)
            if change is Change.RENAMED:
                self._missed[self._name(path)] = None
        else:
            self._found.append(Operation(path=self._name(path), change=change, content=content, temporary=temporary))
        return number

    def _forget(self, path: Path) -> None:
        for number in self._written.pop(self._name(path), ()):
            self._found[number] = None
            self._missed.pop(self._name(path), None)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _changed_at(entry: os.DirEntry[str]) -> int:
    """Change time of an entry in nanoseconds; a removed entry comes first."""
    try:
        return entry.stat(follow_symlinks=False).st_ctime_ns
    except FileNotFoundError:
        return 0
