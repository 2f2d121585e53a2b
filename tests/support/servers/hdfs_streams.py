"""Streams in a real HDFS, as its own shell sees and writes them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from streamwarden.checkpoint.formats.uris import to_uri
from streamwarden.stream.spec import StreamSpec
from support.servers.hadoop import Hdfs


def stored(hdfs: Hdfs, local: StreamSpec, at: str, scratch: Path) -> StreamSpec:
    """The stream of an unpacked archive with all that it has, put into the folder `at` of HDFS by Hadoop's shell.

    Args:
        at: path in HDFS.
        scratch: folder of this host that is not there yet.
    """
    root, url = Path(local.checkpoint).parent, f"{hdfs.url}{at}"
    shutil.copytree(root, scratch)
    for path in sorted(path for path in scratch.rglob("*") if path.is_file()):
        before = content = path.read_bytes()
        content = content.replace(f"file:{root}/checkpoint/state".encode(), f"{url}/checkpoint/state".encode())
        for here in (to_uri(str(root)), str(root)):
            content = content.replace(here.encode(), to_uri(url).encode())
        if content != before:
            path.write_bytes(content)
    for checksum in scratch.rglob(".*.crc"):  # HDFS keeps its checksums itself
        checksum.unlink()
    hdfs.shell("-put", "-p", str(scratch), at)
    return replace(
        local,
        checkpoint=f"{url}/checkpoint",
        source=replace(local.source, path=f"{url}/input"),
        sink=replace(local.sink, path=f"{url}/output"),
    )


def listing(hdfs: Hdfs, folder: str) -> dict[str, int]:
    """Path below a folder of HDFS -> bytes of each file, as Hadoop's shell lists them."""
    lines = hdfs.shell("-ls", "-R", "-C", folder).splitlines()
    sizes = hdfs.shell("-stat", "%F %b %n", *lines).splitlines() if lines else []
    files = {path: size for path, size in zip(lines, sizes, strict=True) if size.startswith("regular file")}
    return {path.removeprefix(f"{folder}/"): int(size.split()[2]) for path, size in files.items()}
