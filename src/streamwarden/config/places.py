"""Locations as people write them: as absolute paths and URLs, and in a form in which two of them can be compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from streamwarden.checkpoint.formats.uris import of_hadoop, to_hadoop
from streamwarden.lifecycle.location import URL, DataUrl, canonical, is_relative, normalized
from streamwarden.problems import KeyPath
from streamwarden.sinks.base import Sink
from streamwarden.sources.base import Source
from streamwarden.stream.spec import StreamSpec

GLOB: Final = re.compile(r"[*?\[\]{}]")


def is_file(path: str) -> bool:
    """Whether there is such a file that this process can see; False also for a path that no file can have."""
    try:
        return Path(path).is_file()
    except OSError:  # a name that is too long, a folder that this user may not enter
        return False


def resolve(text: str, root: Path | DataUrl) -> str:
    """`text` as an absolute, normalized path or URL below `root`; URLs stay URLs, but `file:` URLs become paths.

    Symbolic links stay as they are written: Spark records the paths that it was given. `lifecycle.location.canonical`
    tells whether two of them are the same place.
    """
    text = of_hadoop(text)
    if isinstance(root, DataUrl) and is_relative(text):
        text = root.place(text)
    if URL.match(text):
        return normalized(text)
    return os.path.normpath(text if isinstance(root, DataUrl) else root / text)


def located(spec: StreamSpec, locate: Callable[[str], str]) -> StreamSpec:
    """The stream with `locate` of every folder in place of it."""
    source, sink, saved = spec.source, spec.sink, spec.savepoints.folder
    return replace(
        spec,
        checkpoint=locate(spec.checkpoint),
        queries={name: locate(path) if path else path for name, path in spec.queries.items()},
        source=source.located(locate) if isinstance(source, Source) else source,
        sink=sink.located(locate) if isinstance(sink, Sink) else sink,
        quarantine=locate(spec.quarantine) if spec.quarantine else spec.quarantine,
        savepoints=replace(spec.savepoints, folder=locate(saved) if saved else saved),
    )


def for_spark(spec: StreamSpec) -> StreamSpec:
    """The stream with every folder as Spark has to be told it, for a job and for the start of its query."""
    return located(spec, to_hadoop)


def locations(spec: StreamSpec) -> dict[KeyPath, str]:
    """Every folder that the stream's file names, by its key."""
    paths: dict[KeyPath, str | None] = {
        ("checkpoint",): spec.checkpoint,
        ("sink", "path"): spec.sink.path,
        ("source", "path"): spec.source.path,
        ("quarantine",): spec.quarantine,
        ("savepoints", "folder"): spec.savepoints.folder,
        **{("queries", name): path for name, path in spec.queries.items()},
    }
    return {key: path for key, path in paths.items() if path is not None}


@dataclass(frozen=True, slots=True)
class Place:
    """The fixed part of a folder's path in its canonical spelling."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> Place:
        """The place of a path, which may hold a glob, or of a URL."""
        return cls(PurePosixPath(canonical(_fixed(path))).parts)

    def meets(self, other: Place) -> bool:
        """Whether one equals the other, or is inside it."""
        shared = min(len(self.parts), len(other.parts))
        return self.parts[:shared] == other.parts[:shared]

    def relation(self, other: Place) -> str:
        """Relation of this place to another one that it overlaps, in words."""
        if self.parts == other.parts:
            return "is also"
        return "is inside" if len(self.parts) > len(other.parts) else "contains"


def _fixed(path: str) -> str:
    head = GLOB.split(path, maxsplit=1)[0]
    return path if head == path else head.rpartition("/")[0] or "/"
