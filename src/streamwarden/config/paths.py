"""Locations as people write them, resolved to one spelling each."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def resolve(text: str, root: Path) -> str:
    """`text` as an absolute, normalized path below `root`; URLs stay URLs, but `file:` URLs become paths.

    One location has one spelling, because a checkpoint's path is the key of its lease.
    """
    if text.lower().startswith("file:/"):
        text = "/" + text[len("file:") :].lstrip("/")
    if URL.match(text):
        scheme, _, rest = text.partition(":")
        host = rest.startswith("//") and not rest.startswith("///")  # hdfs:///x, as hdfs:/x, names no host
        return f"{scheme.lower()}:{'//' if host else '///'}{re.sub('/+', '/', rest.lstrip('/')).rstrip('/')}"
    return os.path.normpath(root / text)
