"""One spelling for each place in storage, so that two names of one folder are recognized as the same folder."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from typing import Final

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""What a location that is not a local path begins with."""

_ALIASES: Final[Mapping[str, str]] = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
"""Schemes that name the same storage as another one."""


def canonical(location: str) -> str:
    """The one spelling of `location`, by which leases and the rules of configuration compare places.

    A local path becomes absolute and its symbolic links are resolved, also in a `file:` URL. In any other URL, scheme
    and host are lower-case, schemes of the same storage are one, and the path has no `.`, `..`, empty part or slash at
    its end. A path that does not exist on this host keeps the parts that do not exist.
    """
    if location.lower().startswith("file:/"):
        location = "/" + location[len("file:") :].lstrip("/")
    if not URL.match(location):
        return os.path.realpath(location)
    scheme, _, rest = location.partition(":")
    scheme = scheme.lower()
    host, path = _split(rest)
    return f"{_ALIASES.get(scheme, scheme)}://{host.lower()}{posixpath.normpath(path).rstrip('/')}"


def _split(rest: str) -> tuple[str, str]:
    """Host and path of what follows the scheme; `hdfs:/x` and `hdfs:///x` name no host."""
    if not rest.startswith("//") or rest.startswith("///"):
        return "", "/" + rest.lstrip("/")
    host, _, path = rest[2:].partition("/")
    return host, "/" + path.lstrip("/")
