"""The lineage in a changelog of checkpoint format 2: which attempt at each version this one was built on.

It begins with the last snapshot that was uploaded before (or with version 1), and ends one version before its own. So
it also names a snapshot that must exist.
"""

from __future__ import annotations

import json

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.lz4 import blocks

_WITH_LINEAGE = ("v3", "v4")


def read_lineage(file: Location) -> dict[int, str] | None:
    """Version -> unique id, from an LZ4 changelog; None if its format has no lineage. Raises Damaged."""
    with file.open() as stream:
        content = b""
        for block in blocks(stream):
            content += block
            version, rest = _string(content)
            if version not in _WITH_LINEAGE:
                return None
            text, _ = _string(rest) if rest is not None else (None, None)
            if text is not None:
                return _parse(text)
    raise Damaged("it is cut off within its lineage")


def _parse(text: str) -> dict[int, str]:
    try:
        return {int(each["version"]): str(each["checkpointUniqueId"]) for each in json.loads(text)}
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"its lineage cannot be read: {text[:60]!r}") from error


def _string(content: bytes) -> tuple[str | None, bytes | None]:
    """A string as Java's DataOutput writes it, and what follows; None if it is incomplete."""
    size = int.from_bytes(content[:2], "big")
    if len(content) < 2 + size or len(content) < 2:
        return None, None
    return content[2 : 2 + size].decode("utf-8", errors="replace"), content[2 + size :]
