"""The checkpoints under tests/data/checkpoints, unpacked where a test wants them."""

from __future__ import annotations

import json
import os
import tarfile
from functools import cache
from pathlib import Path

from streamwarden.checkpoint.uris import to_uri
from streamwarden.stream import SinkSpec, SourceSpec, StreamSpec

ARCHIVES = Path(__file__).parent.parent / "data" / "checkpoints"
NAMES = tuple(sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz")))
MADE_IN = "/tmp/checkpoints"


@cache
def _contents(name: str) -> dict[str, tuple[bytes, float]]:
    """Path below the root -> content and time, but for the checksums of logs whose paths are going to be moved."""
    found = {}
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        for each in archive.getmembers():
            moved = "/sources/" in each.name or "/_spark_metadata/" in each.name
            stream = None if moved and each.name.endswith(".crc") else archive.extractfile(each)
            if stream is not None:
                found[each.name] = (stream.read(), each.mtime)
    return found


def unpack(name: str, root: Path) -> Path:
    """Unpack into `root` (checkpoint/, output/), with the paths inside moved there; returns the checkpoint."""
    made_in, here = f"{MADE_IN}/{name}".encode(), to_uri(str(root)).removeprefix("file://").encode()
    for path, (content, modified) in _contents(name).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.replace(made_in, here))
        os.utime(target, (modified, modified))
    return root / "checkpoint"


def stream_of(root: Path, *, files: int, max_files: int | None = 1) -> StreamSpec:
    """The stream of an unpacked archive, with `files` input files named as the archive's query read them."""
    source = root / "input"
    source.mkdir(exist_ok=True)
    for index in range(files):
        (source / f"in {index:03d}.json").write_text(json.dumps({"id": index}) + "\n")
    return StreamSpec(
        name="minutes",
        job=str(root / "minutes.py"),
        checkpoint=str(root / "checkpoint"),
        source=SourceSpec(path=str(source), max_files_per_trigger=max_files),
        sink=SinkSpec(path=str(root / "output")),
    )
