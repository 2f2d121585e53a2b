"""Environments with a PySpark of another version and the base of this checkout's wheel, as a stream names them.

Each is made once, in a cache outside of the checkout, and gets the wheel of the checkout anew. What is not cached comes
from the package index; without it a test is skipped and says why.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import connectors
from streamwarden.checkpoint.spark_support import parsed
from support.spark.drivers import QUICK

RELEASES: Final = ("3.5.9", "4.0.5", "4.1.4", "4.2.1")
"""The newest of each minor version, beside the one that this checkout's own environment has."""

_ROOT: Final = Path(__file__).parents[3]
_UV: Final = Path(sys.executable).with_name("uv")
_CACHE: Final = Path.home() / ".cache" / "streamwarden-tests" / "spark-environments"
_WITHIN: Final = 900.0
"""Seconds for a download of 400 MB."""


GUIDE: Final = _ROOT / "docs" / "how-to" / "spark-versions.md"
_INSTALLS: Final = " -m pip install "


def environment(release: str, *extras: str) -> Path:
    """The interpreter of the environment with that PySpark, and with these extras. Skips the test if it cannot be
    made."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    folder = _CACHE / release
    python = folder / "bin" / "python"
    with (_CACHE / f"{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _run("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
            _run("pip", "install", "--quiet", "--python", str(python), f"pyspark=={release}")
            (folder / "complete").touch()
        packages = _packages(f"[{','.join(extras)}]" if extras else "")
        _run("pip", "install", "--quiet", "--python", str(python), "--reinstall-package", "streamwarden", *packages)
    return python


def python_with(connector: str, *more: str, extras: tuple[str, ...] = ()) -> Path:
    """The interpreter of the environment with the Spark of this connector's jars. Its jars are fetched, and those of
    `more` connectors for that Spark."""
    (release,) = (release for release in RELEASES if parsed(release) == connectors()[connector].usual)
    fetch(release, connector, *more)
    return environment(release, *extras)


def fetch(release: str, *names: str) -> None:
    """Fetch the jars of these connectors for this Spark."""
    for name in names:
        connector = connectors()[name]
        maven.resolve(connector.pom, connector.profile(parsed(release)))


def spark_with(connector: str) -> str:
    """The `spark` of a stream's file: an environment with the Spark of this connector's jars, which are fetched."""
    given = {"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK}
    return json.dumps(given | key_of(python_with(connector)))


def key_of(python: Path) -> dict[str, str]:
    """What the guide tells a person to write below `spark` of a stream's file, for this interpreter."""
    block, *_ = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    document = yaml.safe_load(block)
    assert list(document) == ["spark"]
    return {name: str(python) for name in document["spark"]}


def _packages(extras: str) -> list[str]:
    """What the guide tells a person to install into the environment, with this checkout's wheel and its extras."""
    (command,) = [line for line in GUIDE.read_text().splitlines() if _INSTALLS in line]
    named = command.partition(_INSTALLS)[2].split()
    assert "streamwarden" in named
    return [f"{_wheel()}{extras}" if name == "streamwarden" else name for name in named]


@cache
def _wheel() -> Path:
    """The wheel of this checkout, built once in a run of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _run("build", "--wheel", "--quiet", "--out-dir", str(folder), str(_ROOT))
    (built,) = folder.glob("*.whl")
    return built


def _run(*arguments: str) -> None:
    done = subprocess.run([str(_UV), *arguments], capture_output=True, text=True, timeout=_WITHIN, check=False)
    if done.returncode != 0:
        pytest.skip(f"uv {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
