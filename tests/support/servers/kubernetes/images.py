"""Images for a node that reaches no registry: one with BusyBox alone, and the product's own."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.servers.container_engine import cloned, engine

PAUSE = "registry.test/pause:1"
"""BusyBox, which also keeps the namespaces of a pod: the image with which a node begins each pod."""

PRODUCT = "streamwarden:local"

GIVEN = "STREAMWARDEN_TEST_IMAGE"
"""Variable with the path of the product's image, as `docker save` writes it: tests that have it build none."""

BUILDKIT = {"DOCKER_BUILDKIT": "1"}
"""The Dockerfile needs it, and engines before version 23 build without."""

BUILDS_WITHIN, SAVES_WITHIN = 2400.0, 600.0


@contextmanager
def product(folder: Path) -> Iterator[Path]:
    """The product's image as a file: the one that `GIVEN` names, or one that is built here."""
    given = os.environ.get(GIVEN)
    if given is None:
        yield _built(folder)
    elif Path(given).is_file():
        yield Path(given)
    else:
        pytest.skip(f"{GIVEN} names {given}, which is no file")


def _built(folder: Path) -> Path:
    saved = folder / "streamwarden.tar"
    with engine() as environment:
        clone = cloned(folder / "clone")
        for command, within in (
            (["docker", "build", "--tag", PRODUCT, str(clone)], BUILDS_WITHIN),
            (["docker", "save", "--output", str(saved), PRODUCT], SAVES_WITHIN),
        ):
            subprocess.run(command, env={**environment, **BUILDKIT}, timeout=within, check=True)
    return saved


def archive(path: Path, name: str, files: Mapping[str, bytes], command: Sequence[str]) -> Path:
    """Write an image of one layer, in the format of `docker save`."""
    layer = _tar({file: (content, 0o755) for file, content in files.items()})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    documents = {"config.json": config, "manifest.json": manifest}
    parts = {file: json.dumps(document).encode() for file, document in documents.items()} | {"layer.tar": layer}
    path.write_bytes(_tar({file: (content, 0o644) for file, content in parts.items()}))
    return path


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for file, (content, mode) in files.items():
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
