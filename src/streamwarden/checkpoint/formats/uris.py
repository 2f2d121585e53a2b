"""URIs as Spark's logs write them: `file:///a/in%20001.json`, percent-encoded like Java's URI."""

from typing import Final
from urllib.parse import quote, unquote, urlsplit

_UNQUOTED: Final = "/!$&'()*+,;=:@~-._"
"""Characters that Java does not escape in the path of a URI, besides letters and digits."""


def to_uri(path: str) -> str:
    """The URI of an absolute local path, or of a decoded URL."""
    scheme, rest = ("file", path) if path.startswith("/") else path.split("://", 1)
    return f"{scheme}://{quote(rest, safe=_UNQUOTED)}"


def to_path(uri: str) -> str:
    """The local path of a `file:` URI or of an encoded bare path; of any other URI the URL, decoded."""
    parts = urlsplit(uri)
    return unquote(parts.path if parts.scheme in ("", "file") else uri)


def file_name(uri: str) -> str:
    """The decoded last part of a URI of any scheme."""
    return unquote(uri.rsplit("/", 1)[-1])
