"""Programs out of Debian's packages, in a cache: to install a server's package would also start it on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def taken_out(name: str, packages: Sequence[str], program: str) -> Path:
    """A folder with the files of the packages, `program` among them; the test is skipped if it cannot be had here.

    Args:
        name: of the folder in the cache.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamwarden-tests" / name
    if not (cache / program).exists():
        if shutil.which("apt-get") is None:
            pytest.skip(f"no {name}: this machine has no apt-get to take Debian's package {packages[0]} from")
        _take_out(cache, packages)
    return cache


def _take_out(cache: Path, packages: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["apt-get", "download", *packages], cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"no {cache.name}: apt-get cannot download Debian's packages: {done.stderr[-500:]}")
        part = Path(folder) / "part"
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(part)], check=True, timeout=60)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(cache, ignore_errors=True)
        shutil.move(part, cache)
