"""An object store of this process alone, for tests of what is asked of a store. A real one: `object_store`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from streamwarden.adapters.storage import object_stores
from streamwarden.checkpoint.formats.uris import to_uri
from streamwarden.stream.spec import OBJECT_STORE, StorageSpec, StreamSpec


class Bucket(MemoryFileSystem):  # type: ignore[misc]  # fsspec is untyped
    """Objects by whole URLs, as `object_stores.BucketFiles` has them."""

    cachable = False
    protocol = "s3a"

    def __init__(self) -> None:
        super().__init__()
        self.before_change: Callable[[str, str], None] = lambda action, path: None
        self.store: dict[str, Any] = {}  # of its class there is one that all share
        self.pseudo_dirs = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + OBJECT_STORE.sub("", path, count=1).strip("/")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self.before_change("write", path)
        super().pipe_file(path, value, **options)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        self.before_change("copy", path2)
        super().cp_file(path1, path2, **options)

    def rm_file(self, path: str) -> None:
        self.before_change("remove", path)
        super().rm_file(path)

    def contents(self) -> dict[str, bytes]:
        """BUCKET/KEY -> content of every object."""
        return {path.lstrip("/"): file.getvalue() for path, file in self.store.items()}


def bucket(patch: pytest.MonkeyPatch) -> Bucket:
    """What every `s3a://` URL leads to from now on."""
    made = Bucket()

    def file_system(known: Any) -> Bucket:
        return made

    patch.setattr(object_stores, "file_system", file_system)
    return made


def stored(lake: Bucket, local: StreamSpec, at: str) -> StreamSpec:
    """The stream of an unpacked archive with all that it has, put into the folder `at` of the store: Hadoop writes no
    checksum files there."""
    root = Path(local.checkpoint).parent
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc"):
        content = path.read_bytes().replace(f"file:{root}/checkpoint/state".encode(), f"{at}/checkpoint/state".encode())
        for here in (to_uri(str(root)), str(root)):
            content = content.replace(here.encode(), to_uri(at).encode())
        lake.pipe_file(f"{at}/{path.relative_to(root).as_posix()}", content)
    return replace(
        local,
        checkpoint=f"{at}/checkpoint",
        source=replace(local.source, path=f"{at}/input"),
        sink=replace(local.sink, path=f"{at}/output"),
        storage=StorageSpec(connection="lake"),
    )
