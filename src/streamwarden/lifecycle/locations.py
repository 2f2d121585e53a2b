"""Whether two spellings of a location mean the same place. Pure."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def plain_path(location: str) -> str:
    """`file:///a/b`, `file:/a/b/` and `/a/b` -> `/a/b`; other URLs stay, without a trailing slash."""
    scheme, _, rest = location.partition(":")
    if scheme.lower() == "file":
        _, _, below_host = rest.removeprefix("//").partition("/")
        location = unquote("/" + below_host if rest.startswith("//") else rest)
    return location.rstrip("/") or "/"


def same_place(actual: str, declared: str) -> bool:
    """Whether Spark's full name of a location is the declared one, which may leave the host out (`hdfs:///a`)."""
    if plain_path(actual) == plain_path(declared):
        return True
    try:
        full, short = urlsplit(actual), urlsplit(declared)
    except ValueError:  # a URL that nothing can read
        return False
    named = (full.scheme, full.path.rstrip("/")) == (short.scheme, short.path.rstrip("/"))
    return named and not short.netloc and short.scheme not in ("", "file")


def overlap(one: str, other: str) -> bool:
    """Whether one place is the other, or is inside it."""
    first, second = f"{plain_path(one)}/", f"{plain_path(other)}/"
    return first.startswith(second) or second.startswith(first)


def is_relative(path: str) -> bool:
    """Whether Spark resolves `path` in its working directory."""
    return not (path.startswith("/") or _URL.match(path))


def below(path: str, folder: str) -> str:
    """`path` as Spark resolves it in the working directory `folder`."""
    return os.path.normpath(PurePath(folder) / path) if is_relative(path) else path
