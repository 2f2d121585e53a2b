"""One spelling for each place in storage, so that two names of one folder are recognized as the same folder, and which
place a relative path names."""

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

from streamwarden.checkpoint.formats.uris import of_hadoop

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""What a location that is not a local path begins with."""


@dataclass(frozen=True, slots=True)
class DataUrl:
    """The place of the streams' relative paths if that is not the data folder: `hdfs://lake/streams`, `s3a://lake`. No
    path of this host, so that a type checker finds where one is needed."""

    url: str

    def __str__(self) -> str:
        return self.url

    def place(self, path: str) -> str:
        """The URL of a relative path."""
        relative = posixpath.normpath(path)
        return self.url if relative == "." else normalized(f"{self.url}/{relative}")


_ALIASES: Final[Mapping[str, str]] = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
"""Schemes that name the same storage as another one."""


def canonical(location: str) -> str:
    """The one spelling of `location`, by which leases and the rules of configuration compare places.

    A local path becomes absolute and its symbolic links are resolved, also in a `file:` URL. In any other URL, scheme
    and host are lower-case, schemes of the same storage are one, and the path has no `.`, `..`, empty part or slash at
    its end. A path that does not exist on this host keeps the parts that do not exist.
    """
    location = of_hadoop(location)
    if not URL.match(location):
        return os.path.realpath(location)
    scheme, _, rest = location.partition(":")
    scheme = scheme.lower()
    host, path = _split(rest)
    return f"{_ALIASES.get(scheme, scheme)}://{host.lower()}{posixpath.normpath(path).rstrip('/')}"


def normalized(url: str) -> str:
    """A URL with its scheme in lower case, and without empty parts and a slash at its end."""
    scheme, _, rest = url.partition(":")
    host = rest.startswith("//") and not rest.startswith("///")  # hdfs:///x, as hdfs:/x, names no host
    return f"{scheme.lower()}:{'//' if host else '///'}{re.sub('/+', '/', rest.lstrip('/')).rstrip('/')}"


def _split(rest: str) -> tuple[str, str]:
    """Host and path of what follows the scheme; `hdfs:/x` and `hdfs:///x` name no host."""
    if not rest.startswith("//") or rest.startswith("///"):
        return "", "/" + rest.lstrip("/")
    host, _, path = rest[2:].partition("/")
    return host, "/" + path.lstrip("/")


def plain_path(location: str) -> str:
    """`file:///a%20b`, `file:/a%20b/` and `/a b` -> `/a b`: a `file:` URI is decoded, as Spark's logs encode it. Other
    URLs stay, without a trailing slash."""
    scheme, _, rest = location.partition(":")
    if scheme.lower() == "file":
        _, _, below_host = rest.removeprefix("//").partition("/")
        location = unquote("/" + below_host if rest.startswith("//") else rest)
    return location.rstrip("/") or "/"


def same_place(actual: str, declared: str) -> bool:
    """Whether Spark's full name of a location is the declared one, which may leave the host out (`hdfs:///a`)."""
    if canonical(plain_path(actual)) == canonical(plain_path(declared)):
        return True
    try:
        full, short = urlsplit(actual), urlsplit(declared)
    except ValueError:  # a URL that nothing can read
        return False
    named = (full.scheme, full.path.rstrip("/")) == (short.scheme, short.path.rstrip("/"))
    return named and not short.netloc and short.scheme not in ("", "file")


def overlap(one: str, other: str) -> bool:
    """Whether one place is the other, or is inside it."""
    first, second = (f"{canonical(plain_path(path))}/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def is_temporary(checkpoint: str) -> bool:
    """Whether Spark generated this checkpoint for a query that names none."""
    return checkpoint.rpartition("/")[2].startswith("temporary-")


def is_relative(path: str) -> bool:
    """Whether Spark resolves `path` in its working directory."""
    return not (path.startswith("/") or URL.match(path))


def below(path: str, folder: str) -> str:
    """`path` as Spark resolves it in the working directory `folder`."""
    return os.path.normpath(PurePath(folder) / path) if is_relative(path) else path
