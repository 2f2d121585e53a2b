"""HDFS over WebHDFS, the HTTP interface of its own servers: no library of Hadoop's, no JVM.

The NameNode answers what is about names, and says for each file which DataNode has its bytes. Of two NameNodes the
standby one refuses, and the other is asked. HDFS renames at once, as a disk does, and keeps no checksum files beside
its files.
"""

import errno
import getpass
import io
import os
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, ClassVar, Final, cast
from urllib.parse import quote

import requests

from streamwarden.adapters.hadoop_settings import FOLDER, HadoopSettings, hadoop_settings
from streamwarden.adapters.storage.remote import RenamingFiles
from streamwarden.checkpoint.filesystem import FileInfo, TooLarge
from streamwarden.errors import CheckpointError

_TIMEOUT: Final = (5.0, 60.0)
"""Seconds to connect, and for each answer."""

_ROUNDS: Final = 3
"""How often each NameNode is asked, while none of them is the active one."""

_PIECE: Final = 1 << 20
_SEEKS: Final = 1 << 16

_REFUSED: Final[Mapping[str, tuple[type[OSError], int]]] = {
    "FileNotFoundException": (FileNotFoundError, errno.ENOENT),
    "FileAlreadyExistsException": (FileExistsError, errno.EEXIST),
    "ParentNotDirectoryException": (NotADirectoryError, errno.ENOTDIR),
    "PathIsNotDirectoryException": (NotADirectoryError, errno.ENOTDIR),
    "AccessControlException": (PermissionError, errno.EACCES),
    "SecurityException": (PermissionError, errno.EACCES),
}
"""Hadoop's exceptions, by the names in an answer of WebHDFS."""

_ASK_ANOTHER: Final = frozenset({"StandbyException", "RetriableException"})


@lru_cache(maxsize=2)
def _session(process: int) -> requests.Session:
    return requests.Session()


@dataclass(frozen=True)
class HdfsFiles(RenamingFiles):
    """The files of one HDFS. Paths are whole URLs, `hdfs://HOST:PORT/a`.

    Args:
        web: URLs of its NameNodes.
        user: who asks, where HDFS believes it (without Kerberos).
        session: makes the session of this process: a connection must not be shared with a forked process.
    """

    host: str
    web: tuple[str, ...]
    user: str
    session: Callable[[], requests.Session] = field(default=lambda: _session(os.getpid()), repr=False, compare=False)
    checksums: ClassVar[bool] = False

    def names(self, path: str) -> Sequence[str]:
        return [entry.name for entry in self.entries(path)]

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        listed = self._ask("GET", "LISTSTATUS", path).json()["FileStatuses"]["FileStatus"]
        if len(listed) == 1 and not listed[0]["pathSuffix"]:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        return [_info(entry["pathSuffix"], entry) for entry in listed if entry["pathSuffix"] not in without]

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        return {entry.name: entry.size for entry in self.entries(path) if entry.name in wanted}

    def stat(self, path: str) -> FileInfo:
        status = self._ask("GET", "GETFILESTATUS", path).json()["FileStatus"]
        return _info(path.rstrip("/").rpartition("/")[2], status)

    def read(self, path: str, most: int | None = None) -> bytes:
        with self.reading(path, 0) as answer:
            content = answer.raw.read(None if most is None else most + 1, decode_content=True)
        if most is not None and len(content) > most:
            raise TooLarge(errno.EFBIG, f"it has more than {most:,} bytes", path)
        return cast(bytes, content)

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(_Reader(self, path, self.stat(path).size), _SEEKS))

    def reading(self, path: str, start: int) -> requests.Response:
        """The bytes of a file from `start` on; the caller closes the answer."""
        return self._ask("GET", "OPEN", path, offset=str(start), stream=True)

    def write(self, path: str, content: bytes) -> None:
        """A file that is there whole or not at all: written under another name, and renamed."""
        self._publish(path, content)

    def upload(self, source: str, target: str) -> None:
        """A file of this host at a place of HDFS, as old as the original."""
        with open(source, "rb") as content:  # noqa: PTH123 (its pieces are sent as they are read)
            self._publish(target, content, os.stat(source).st_mtime)  # noqa: PTH116

    def copy(self, source: str, target: str) -> None:
        """A file at another place, as old as the original. HDFS copies nothing itself: the bytes pass through here."""
        with self.reading(source, 0) as answer:
            self._publish(target, answer.iter_content(_PIECE), self.stat(source).modified)

    def remove(self, path: str) -> bool:
        """A file, or a folder with all that is in it; False: there is none."""
        return bool(self._ask("DELETE", "DELETE", path, recursive="true").json()["boolean"])

    def rename(self, source: str, target: str) -> None:
        """Raises FileExistsError if there is something at the target."""
        self._make_folder_of(target)
        self._rename(source, target, "NONE")

    def _rename(self, source: str, target: str, option: str) -> None:
        self._ask("PUT", "RENAME", source, destination=self._below(target), renameoptions=option)

    def _publish(self, path: str, content: Any, modified: float | None = None) -> None:
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            self._create(hidden, content)
            if modified is not None:
                self._ask("PUT", "SETTIMES", hidden, modificationtime=str(round(modified * 1000)))
            self._rename(hidden, path, "OVERWRITE")
        except BaseException:
            with suppress(OSError):
                self.remove(hidden)
            raise

    def _create(self, path: str, content: Any) -> None:
        """The folders above are made with it."""
        place = self._ask("PUT", "CREATE", path, noredirect="true", overwrite="true").json()["Location"]
        _checked(path, lambda: self.session().request("PUT", place, data=content, timeout=_TIMEOUT))

    def _make_folder_of(self, path: str) -> None:
        self._ask("PUT", "MKDIRS", path.rpartition("/")[0])

    def _ask(self, method: str, operation: str, path: str, *, stream: bool = False, **given: str) -> requests.Response:
        """Ask the active NameNode. Raises OSError; the last one if none of them answers or is active."""
        below = f"/webhdfs/v1{quote(self._below(path))}"
        parameters = {"op": operation, "user.name": self.user, **given}
        last: OSError = OSError(errno.EHOSTUNREACH, "no NameNode is known", path)
        for web in self.web * _ROUNDS:
            try:
                return _checked(
                    path,
                    lambda url=f"{web}{below}": self.session().request(  # type: ignore[misc]
                        method, url, params=parameters, timeout=_TIMEOUT, stream=stream
                    ),
                )
            except _AnotherOne as error:
                last = OSError(errno.EHOSTUNREACH, str(error), path)
        raise last

    def _below(self, path: str) -> str:
        """The path within HDFS."""
        return path.removeprefix(f"hdfs://{self.host}") or "/"


class _AnotherOne(Exception):
    """This NameNode does not answer, or is not the active one."""


def _checked(path: str, request: Callable[[], requests.Response]) -> requests.Response:
    """The answer. Raises OSError for one that refuses, _AnotherOne where another NameNode may know better."""
    try:
        answer = request()
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _AnotherOne(f"WebHDFS does not answer: {error}") from error
    except requests.RequestException as error:
        raise OSError(errno.EIO, str(error), path) from error
    if answer.ok:
        return answer
    with answer:
        raise _refusal(answer, path)


def _refusal(answer: requests.Response, path: str) -> Exception:
    try:
        body = answer.json()["RemoteException"]
        kind, message = str(body["exception"]), str(body["message"]).partition("\n")[0]
    except (ValueError, LookupError, TypeError):
        kind, message = "", f"WebHDFS answers {answer.status_code} {answer.reason}"
    if kind in _ASK_ANOTHER:
        return _AnotherOne(message)
    error, number = _REFUSED.get(kind, (PermissionError, errno.EACCES) if answer.status_code == 401 else (OSError, 5))
    return error(number, message, path)


class _Reader(io.RawIOBase):
    """Reads a file from wherever it was sought to, in one answer as long as nobody seeks."""

    def __init__(self, fs: HdfsFiles, path: str, size: int) -> None:
        self._fs, self._path, self._size, self._at = fs, path, size, 0
        self._answer: requests.Response | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at != self._at:
            self._end()
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        if self._answer is None:
            self._answer = self._fs.reading(self._path, self._at)
        try:
            piece = self._answer.raw.read(len(buffer), decode_content=True)
        except Exception as error:  # urllib3's own, of a DataNode that went away
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}", self._path) from error
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._end()
        super().close()

    def _end(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


def open_hdfs(url: str, environ: Mapping[str, str]) -> tuple[HdfsFiles, str]:
    """The file system of an `hdfs://` URL, and the URL with its host. This sends no request yet.

    Raises CheckpointError if nothing says where it is, or it asks for Kerberos.
    """
    settings = hadoop_settings(environ)
    host, _, below = url.removeprefix(url[: len("hdfs://")]).partition("/")
    host = host or settings.default_host or ""
    if not host:
        raise _unknown(url, settings)
    if settings.needs_kerberos:
        raise _guarded(url, settings)
    user = environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return HdfsFiles(host, settings.web_addresses(host), user), f"hdfs://{host}/{below}".rstrip("/")


def _unknown(url: str, settings: HadoopSettings) -> CheckpointError:
    return CheckpointError(
        "the URL names no host, and this host's settings of Hadoop name no HDFS",
        expected="hdfs://HOST:PORT/… or hdfs://NAMESERVICE/…, or a `fs.defaultFS` that is an HDFS",
        where=url,
        next_step=f"name the host, or set {FOLDER} ({settings.folder or 'it is not set'}) where Streamwarden runs",
    )


def _guarded(url: str, settings: HadoopSettings) -> CheckpointError:
    return CheckpointError(
        "this HDFS asks for Kerberos, with which Streamwarden does not read HDFS",
        expected="`hadoop.security.authentication: simple`",
        where=f"{url} ({settings.folder}/core-site.xml)",
        next_step="keep the stream's checkpoint, input and output on a disk that this host and the executors share, or "
        "on s3a://",
    )


def _info(name: str, status: Mapping[str, Any]) -> FileInfo:
    is_dir = status["type"] == "DIRECTORY"
    return FileInfo(
        name=name,
        size=0 if is_dir else int(status["length"]),
        modified=int(status["modificationTime"]) / 1000,
        is_dir=is_dir,
    )
