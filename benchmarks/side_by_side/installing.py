"""The peers' environments, each below the user's cache folder under the digest of what pins it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm import maven
from streamwarden.errors import ProcessError

PROGRAMS: Final = Path(__file__).with_name("programs")
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
_READY: Final = "ready"
"""Written last: an environment without it was interrupted."""


def folder(name: str, *pins: Path) -> Path:
    """Where the environment of a peer is, for this content of the files that pin it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    content = hashlib.sha256(b"\0".join(pin.read_bytes() for pin in pins)).hexdigest()[:12]
    return cache / "streamwarden-peers" / f"{name}-{content}"


def python_of(name: str) -> Path:
    """The interpreter of a Python peer, whether it is installed or not."""
    return folder(name, requirements(name)) / "bin" / "python"


def requirements(name: str) -> Path:
    """The versions of a Python peer and of all that it needs."""
    return PROGRAMS / name / "requirements.txt"


def install_python(name: str) -> None:
    """Make the virtual environment of a Python peer, unless it is there. Raises ProcessError."""
    home = folder(name, requirements(name))
    if (home / _READY).exists():
        return
    shutil.rmtree(home, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    _run(uv, "venv", "--quiet", "--python", f"{sys.version_info[0]}.{sys.version_info[1]}", str(home))
    _run(uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), "-r", str(requirements(name)))
    (home / _READY).touch()


def install_java(name: str) -> Path:
    """Compile the Maven project of a Java peer, unless it is there: a folder of jars. Raises ProcessError."""
    project = PROGRAMS / name
    home = folder(name, *sorted(path for path in project.rglob("*") if path.is_file() and "target" not in path.parts))
    if (home / _READY).exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    work = home / "work"
    shutil.copytree(project, work, ignore=shutil.ignore_patterns("target"))
    maven.run(work / "pom.xml", "package", _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={home}")
    for jar in (work / "target").glob("*.jar"):
        jar.rename(home / jar.name)
    shutil.rmtree(work)
    (home / _READY).touch()
    return home


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProcessError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}",
            expected="the packages that are pinned",
            where=" ".join(command),
            next_step="check that uv reaches its index (UV_INDEX_URL, proxy), then try again",
        )
