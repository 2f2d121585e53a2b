"""The folders that a stream's file names, in a form in which two of them can be compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from streamwarden.lifecycle.location import canonical
from streamwarden.problems import KeyPath
from streamwarden.stream.spec import StreamSpec

GLOB: Final = re.compile(r"[*?\[\]{}]")


def locations(spec: StreamSpec) -> dict[KeyPath, str]:
    """Every folder that the stream's file names, by its key."""
    paths: dict[KeyPath, str | None] = {
        ("checkpoint",): spec.checkpoint,
        ("sink", "path"): spec.sink.path,
        ("source", "path"): spec.source.path,
        ("quarantine",): spec.quarantine,
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
