"""Programs that `make setup-tests` puts into .venv/bin: promtool and nginx. And packages of Debian that a test unpacks
for itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def program(name: str) -> str:
    """Path of the program. Raises FileNotFoundError if it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        raise FileNotFoundError(f"{name} is not there: run `make setup-tests`")
    return found


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """A folder with the files of Debian's packages, which are not installed: nobody has to be root. The test is skipped
    if they cannot be had here. They are kept in a cache outside of the checkout."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamwarden-tests" / name
    if not cache.exists():
        if shutil.which("apt-get") is None:
            pytest.skip(f"this machine has no apt-get to take Debian's package {packages[0]} from")
        _take_out(packages, cache)
    return cache


def _take_out(packages: Sequence[str], cache: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["apt-get", "download", *packages], cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"apt-get cannot download Debian's package {packages[0]}: {done.stderr[-500:]}")
        part = Path(folder) / "part"
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(part)], check=True, timeout=60)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(part, cache)
