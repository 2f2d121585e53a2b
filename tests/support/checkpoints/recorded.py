"""The checkpoints under tests/data/checkpoints, put where a test wants them."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

from streamwarden.checkpoint.formats.uris import to_uri
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec

ARCHIVES = Path(__file__).parents[2] / "data" / "checkpoints"
Unpack = Callable[[str, Path], Path]
NAMES = tuple(sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz")))
MADE_IN = "/tmp/checkpoints"
_FIRST_FILE = 1_700_000_000
"""The time of the first input file; each further one is a second younger."""


class Archives:
    """Unpacks each archive once below `root`, and from there links its files into the folders of tests.

    A link costs a twentieth of a written file, and there are 200 of them in a checkpoint. It shares its content with
    the folders of other tests, so what a test changes it must first `replace` (or remove); `check` tells who did not.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, dict[str, tuple[bytes, float]]] = {}

    def unpack(self, name: str, into: Path) -> Path:
        """Lay out `into` (checkpoint/, output/), with the paths inside moved there; returns the checkpoint."""
        made_in, encoded = f"{MADE_IN}/{name}".encode(), to_uri(str(into)).removeprefix("file://").encode()
        if name not in self._known:
            self._known[name] = self._extract(name)
        files = self._known[name]
        for folder in {path.rpartition("/")[0] for path in files}:
            (into / folder).mkdir(parents=True, exist_ok=True)
        for path, (content, modified) in files.items():
            target = f"{into}/{path}"
            if made_in in content:
                here = os.fsencode(into) if "/_metadata/" in path else encoded  # an operator's paths are Hadoop's text
                Path(target).write_bytes(content.replace(made_in, here))
                os.utime(target, (modified, modified))
            else:
                os.link(f"{self._root}/{name}/{path}", target)
        return into / "checkpoint"

    def check(self) -> None:
        """Fails if a test has written into a file that it shared with others."""
        for name, files in self._known.items():
            changed = [
                path for path, (content, _) in files.items() if (self._root / name / path).read_bytes() != content
            ]
            assert not changed, f"a test wrote into shared files of {name}, see support.checkpoints.replace: {changed}"

    def _extract(self, name: str) -> dict[str, tuple[bytes, float]]:
        """Path below the root -> content and time, but for the checksums of files whose paths are going to be moved."""
        found, made_in = {}, f"{MADE_IN}/{name}".encode()
        with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
            for each in archive.getmembers():
                stream = archive.extractfile(each)
                if stream is not None:
                    found[each.name] = (stream.read(), each.mtime)
        for path in [path for path, (content, _) in found.items() if made_in in content]:
            found.pop(_checksum_of(path), None)
        for path, (content, modified) in found.items():
            target = self._root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            os.utime(target, (modified, modified))
        return found


def _checksum_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def remove(path: Path) -> None:
    """Remove a file with its checksum file, as if Spark had never written it."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def rewrite(path: Path, content: bytes) -> None:
    """Replace a shared file by another one that is as valid for Hadoop: without a checksum file."""
    remove(path)
    path.write_bytes(content)


def replace(path: Path, content: bytes) -> None:
    """Replace a shared file by the test's own copy. Its checksum file stays, and no longer matches."""
    path.unlink()
    path.write_bytes(content)


def stream_of(root: Path, *, files: int, max_files: int | None = 1) -> StreamSpec:
    """The stream of an unpacked archive, with `files` input files of the names and times that its query read."""
    source = root / "input"
    source.mkdir(exist_ok=True)
    for index in range(files):
        file = source / f"in {index:03d}.json"
        file.write_text(json.dumps({"id": index}) + "\n")
        os.utime(file, (_FIRST_FILE + index,) * 2)
    return StreamSpec(
        name="minutes",
        job=str(root / "minutes.py"),
        checkpoint=str(root / "checkpoint"),
        source=FilesSource(path=str(source), max_files_per_trigger=max_files),
        sink=ParquetSink(path=str(root / "output")),
    )
