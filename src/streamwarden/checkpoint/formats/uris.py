"""How a place is named to Spark, and how Spark's logs name it.

Inside, a place on a disk is its absolute path, which is also what people see, and any other place its URL; nothing is
encoded. Spark would look a bare path up in Hadoop's default file system, which on a cluster is as a rule HDFS: what is
passed to Spark goes through `to_hadoop`. Spark's logs have URIs, `file:///a/in%20001.json`, percent-encoded like
Java's URI: `to_uri`, `to_path`.
"""

from typing import Final
from urllib.parse import quote, unquote, urlsplit

_UNQUOTED: Final = "/!$&'()*+,;=:@~-._"
"""Characters that Java does not escape in the path of a URI, besides letters and digits."""

GLOB: Final = frozenset("*?[]{}\\")
"""Characters by which Hadoop tells a pattern of names from a name."""


def to_uri(path: str) -> str:
    """The URI of an absolute local path, or of a decoded URL."""
    scheme, rest = ("file", path) if path.startswith("/") else path.split("://", 1)
    return f"{scheme}://{quote(rest, safe=_UNQUOTED)}"


def to_path(uri: str) -> str:
    """The local path of a `file:` URI or of an encoded bare path; of any other URI the URL, decoded."""
    parts = urlsplit(uri)
    return unquote(parts.path if parts.scheme in ("", "file") else uri)


def to_hadoop(path: str) -> str:
    """The text of an absolute local path, or of a decoded URL, as Hadoop's Path writes and reads it: nothing in it is
    encoded. A path in an option of Spark's is read, and operators name the files of their schema, like this."""
    return f"file:{path}" if path.startswith("/") else path


def of_hadoop(text: str) -> str:
    """The inverse of `to_hadoop`, with any number of slashes."""
    return f"/{text[len('file:') :].lstrip('/')}" if text[:6].lower() == "file:/" else text


def is_plain(path: str) -> bool:
    """Whether nothing in an absolute local path is encoded in its URI."""
    return to_uri(path) == f"file://{path}"


def is_pattern(path: str) -> bool:
    """Whether Hadoop takes a path for a pattern of names."""
    return any(character in GLOB for character in path)


def literal(uri: str) -> str:
    """The URI as Spark's readers take it for this one file: with its scheme, nothing in it encoded, and each character
    escaped by which they would take it for a pattern."""
    return "".join(f"\\{character}" if character in GLOB else character for character in unquote(uri))


def file_name(uri: str) -> str:
    """The decoded last part of a URI of any scheme."""
    return unquote(uri.rsplit("/", 1)[-1])
