"""The checkpoints under tests/data/checkpoints, unpacked where a test wants them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from streamwarden.stream import SinkSpec, SourceSpec, StreamSpec

ARCHIVES = Path(__file__).parent.parent / "data" / "checkpoints"
NAMES = tuple(sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz")))
MADE_IN = "/tmp/checkpoints"


def unpack(name: str, root: Path) -> Path:
    """Unpack into `root` (checkpoint/, output/), with the paths inside moved there; returns the checkpoint."""
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(root, filter="data")
    for log in (*root.glob("checkpoint/sources/*/*"), *root.glob("output/_spark_metadata/*")):
        if not log.name.startswith("."):
            log.write_text(log.read_text().replace(f"{MADE_IN}/{name}", str(root)))
            log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
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
