"""File systems: local with the standard library, HDFS and object stores by clients of their own, everything else that
fsspec can open."""

import errno
import os
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, cast
from urllib.parse import unquote, urlsplit

from streamwarden import disk
from streamwarden.adapters.storage.remote import RemoteFiles
from streamwarden.checkpoint.filesystem import FileInfo, Location, NotAFile, TooLarge
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import HDFS, OBJECT_STORE, StreamSpec

_NO_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES})
"""Another device, a protected file, too many links, a file system without links: copy instead."""

_LEADS_NOWHERE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR})

_MODIFIED: Final = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")


class LocalFiles:
    """The file system of this host."""

    checksums: Final = True

    def names(self, path: str) -> Sequence[str]:
        with os.scandir(_native(path)) as scan:
            return [entry.name for entry in scan]

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        with os.scandir(_native(path)) as scan:
            infos = (_scanned(entry) for entry in scan if entry.name not in without)
            return [info for info in infos if info is not None]

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        with os.scandir(_native(path)) as scan:
            infos = (_scanned(entry) for entry in scan if entry.name in wanted)
            return {info.name: info.size for info in infos if info is not None}

    def stat(self, path: str) -> FileInfo:
        return _local(Path(path).name, Path(_native(path)).stat())

    def modified_ns(self, path: str) -> int:
        """Modification time, Unix nanoseconds: seconds as a float are too coarse for Spark's milliseconds."""
        return Path(_native(path)).stat().st_mtime_ns

    def read(self, path: str, most: int | None = None) -> bytes:
        with self.open(path) as stream:
            return _at_most(stream.read(-1 if most is None else most + 1), most, path)

    def open(self, path: str) -> BinaryIO:
        descriptor = os.open(_native(path), os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block until it has a writer
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise NotAFile(errno.EINVAL, "not a regular file", path)

    def write(self, path: str, content: bytes) -> None:
        """A file that is there whole or not at all, in a folder that is made if need be."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        disk.replace(target, content, durable=False)


@dataclass(frozen=True)
class FsspecFiles(RemoteFiles):
    """Any file system that fsspec has a driver for. Whatever a driver raises comes out as an OSError."""

    fs: Any
    checksums: ClassVar[bool] = False

    def names(self, path: str) -> Sequence[str]:
        return [entry.name for entry in self.entries(path)]

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        listed = self._ask("ls", path, detail=True, refresh=True)
        if len(listed) == 1 and listed[0]["type"] == "file" and _same(listed[0]["name"], path):
            raise NotADirectoryError(20, "not a folder", path)
        infos = (_remote(info) for info in listed if not _same(info["name"], path))
        return [info for info in infos if info.name not in without]

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        return {entry.name: entry.size for entry in self.entries(path) if entry.name in wanted}

    def stat(self, path: str) -> FileInfo:
        return _remote(self._ask("info", path))

    def read(self, path: str, most: int | None = None) -> bytes:
        if most is None:
            return cast(bytes, self._ask("cat_file", path))
        with self.open(path) as stream:  # fsspec's range of `cat_file` needs a seekable file, which Arrow's is not
            return _at_most(stream.read(most + 1), most, path)

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._ask("open", path, "rb"))

    def write(self, path: str, content: bytes) -> None:
        """A file; in an object store it is there when it is there whole."""
        self._ask("pipe_file", path, content)

    def copy(self, source: str, target: str) -> None:
        """A file at another place of the same store, which does it by itself. It is as old as the copy."""
        try:
            self._ask("cp_file", source, target)
        except FileNotFoundError:
            raise
        except OSError:
            self.stat(source)  # raises FileNotFoundError where the store has another word for it
            raise

    def upload(self, source: str, target: str) -> None:
        """A file of this host at a place of the store."""
        self._ask("put_file", source, target)

    def remove(self, path: str) -> bool:
        """A folder with all that is in it; False: there is none."""
        try:
            self._ask("rm", path, recursive=True)
        except FileNotFoundError:
            return False
        return True

    def _ask(self, method: str, path: str, *args: object, **options: object) -> Any:
        try:
            return getattr(self.fs, method)(path, *args, **options)
        except FileNotFoundError as error:
            if error.filename is not None:
                raise
            raise FileNotFoundError(2, "not there", path) from error  # some drivers give a text without the path
        except OSError:
            raise
        except Exception as error:  # each driver has its own exceptions, which all mean "cannot be read"
            raise OSError(5, f"{type(error).__name__}: {error}", path) from error


def open_path(url: str | Path, connection: str | None = None) -> Location:
    """The file system of a path or URL, with the path in its terms.

    A path without a scheme and `file:` are local. Object stores (`s3a:`, `s3:`) and `hdfs:` have clients of their own,
    whose paths are whole URLs.

    Args:
        connection: of an object store; None: the environment's own variables.

    Raises CheckpointError if fsspec has no driver for the scheme, or the driver cannot be opened (package missing, no
    credentials); ConfigError for a connection that is not there or cannot be used.
    """
    text = os.fspath(url)
    if OBJECT_STORE.match(text):
        from streamwarden.adapters.storage.object_stores import access, file_system

        return Location(FsspecFiles(file_system(access(connection))), text.rstrip("/"))
    if HDFS.match(text):
        from streamwarden.adapters.storage.hdfs import open_hdfs

        return Location(*open_hdfs(text, os.environ))
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Location(LocalFiles(), unquote(parts.path).rstrip("/") or "/")
    if "://" not in text and "::" not in text:
        return Location(LocalFiles(), str(Path(text).absolute()))
    from fsspec.core import url_to_fs

    try:
        fs, path = url_to_fs(text)
    except Exception as error:  # ImportError, ValueError, and whatever the driver raises while it connects
        raise CheckpointError(
            f"the storage cannot be opened: {error}",
            expected="a local path, or a URL that an installed fsspec driver opens",
            where=text,
            next_step="install the driver (gcsfs, adlfs, …) or check the credentials",
        ) from error
    return Location(FsspecFiles(fs), str(path))


def checkpoint_of(spec: StreamSpec) -> Location:
    """The checkpoint of a stream or a query, wherever it is stored."""
    return open_path(spec.checkpoint, spec.storage.connection)


def running_query(checkpoint: str) -> str:
    """The id of the query that executes a batch on this checkpoint now, with the driver's own credentials. Raises
    CheckpointError if the checkpoint has lost it."""
    query_id = read_query_id(open_path(checkpoint))
    if query_id is None:
        raise CheckpointError(
            "the checkpoint has lost its metadata while the query runs",
            expected="the file `metadata` with the id of the query",
            where=checkpoint,
            next_step="restore it from a savepoint; a query that starts without it is another query",
        )
    return query_id


def output_of(spec: StreamSpec) -> Location | None:
    """The output folder of a sink with a manifest; None for any other sink."""
    return open_path(spec.sink.path, spec.storage.connection) if spec.sink.MANIFEST and spec.sink.path else None


def download(source: Location, target: Path) -> None:
    """Copy one file to this host, with its modification time: Spark orders input by it, and oracles read it."""
    modified = source.stat().modified
    with source.open() as given, target.open("wb") as taken:
        shutil.copyfileobj(given, taken)
    if modified is not None:
        os.utime(target, (modified, modified))


def link_or_copy(source: Location, target: Path) -> None:
    """Bring one file to this host: a hard link where that is possible, else a copy with its modification time."""
    if not isinstance(source.fs, LocalFiles):
        download(source, target)
        return
    try:
        os.link(source.path, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copy2(source.path, target)


def can_link(source: Location, folder: Path) -> bool:
    """Whether a file can be linked into a folder of this host instead of being copied. Leaves nothing there.

    Raises OSError.
    """
    if not isinstance(source.fs, LocalFiles):
        return False
    probe = folder / f".link-{os.getpid()}"
    try:
        os.link(source.path, probe)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    probe.unlink()
    return True


def _native(path: str) -> str:
    """Raises FileNotFoundError for a path that no file can have: with a zero byte, or not encodable."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path


def _at_most(content: bytes, most: int | None, path: str) -> bytes:
    if most is not None and len(content) > most:
        raise TooLarge(errno.EFBIG, f"it has more than {most:,} bytes", path)
    return content


def _scanned(entry: os.DirEntry[str]) -> FileInfo | None:
    """None for an entry that was removed since it was listed (Spark purges concurrently), and for a link that leads
    nowhere."""
    try:
        return _local(entry.name, entry.stat())
    except OSError as error:
        if error.errno in _LEADS_NOWHERE:
            return None
        raise


def _local(name: str, status: os.stat_result) -> FileInfo:
    is_dir = stat.S_ISDIR(status.st_mode)
    return FileInfo(name=name, size=0 if is_dir else status.st_size, modified=status.st_mtime, is_dir=is_dir)


def _remote(info: Mapping[str, Any]) -> FileInfo:
    is_dir = info["type"] == "directory"
    return FileInfo(
        name=str(info["name"]).rstrip("/").rsplit("/", 1)[-1],
        size=0 if is_dir else int(info.get("size") or 0),
        modified=_when(next((info[key] for key in _MODIFIED if info.get(key) is not None), None)),
        is_dir=is_dir,
    )


def _when(value: object) -> float | None:
    """Drivers give a number, a datetime or ISO-8601 text."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    return None


def _same(name: str, path: str) -> bool:
    return name.strip("/") == OBJECT_STORE.sub("", path).strip("/")
