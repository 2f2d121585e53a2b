"""Locations as people write them, as absolute paths and URLs."""

import os
import re
from pathlib import Path

from streamwarden.lifecycle.location import URL


def is_file(path: str) -> bool:
    """Whether there is such a file that this process can see; False also for a path that no file can have."""
    try:
        return Path(path).is_file()
    except OSError:  # a name that is too long, a folder that this user may not enter
        return False


def resolve(text: str, root: Path) -> str:
    """`text` as an absolute, normalized path below `root`; URLs stay URLs, but `file:` URLs become paths.

    Symbolic links stay as they are written: Spark records the paths that it was given. `lifecycle.location.canonical`
    tells whether two of them are the same place.
    """
    if text.lower().startswith("file:/"):
        text = "/" + text[len("file:") :].lstrip("/")
    if URL.match(text):
        scheme, _, rest = text.partition(":")
        host = rest.startswith("//") and not rest.startswith("///")  # hdfs:///x, as hdfs:/x, names no host
        return f"{scheme.lower()}:{'//' if host else '///'}{re.sub('/+', '/', rest.lstrip('/')).rstrip('/')}"
    return os.path.normpath(root / text)
