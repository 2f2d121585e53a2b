"""Finds a Java that Spark 4.3 can run on: version 17 or newer, with the module `jdk.incubator.vector`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from streamwarden.errors import ProcessError

MINIMUM: Final = 17
MODULE: Final = "jdk.incubator.vector"
INSTALL: Final = "apt-get install -y openjdk-17-jre-headless"
_INSTALLED: Final = Path("/usr/lib/jvm")


def find_java(environ: Mapping[str, str] | None = None, *, installed: Path = _INSTALLED) -> Path:
    """Home folder of a usable Java: JAVA_HOME, then `java` on the PATH, then what lies under /usr/lib/jvm.

    Raises:
        ProcessError: none is usable; the message lists every place that was tried and the one command to run.
    """
    environ = os.environ if environ is None else environ
    tried = []
    for home in _candidates(environ, installed):
        problem = _problem(home)
        if problem is None:
            return home
        tried.append(f"{home} ({problem})")
    raise ProcessError(
        "no usable Java" + (f": {', '.join(tried)}" if tried else ""),
        expected=f"Java >= {MINIMUM} with the module {MODULE} (Spark 4.3 needs both)",
        where=f"JAVA_HOME, PATH, {installed}",
        next_step=f"run: {INSTALL}",
    )


def _candidates(environ: Mapping[str, str], installed: Path) -> Iterable[Path]:
    candidates: dict[Path, None] = {}
    if environ.get("JAVA_HOME"):
        candidates[Path(environ["JAVA_HOME"])] = None
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        candidates[Path(on_path).resolve().parent.parent] = None
    if installed.is_dir():
        for home in sorted(installed.iterdir()):
            if (home / "bin" / "java").exists():
                candidates[home.resolve()] = None
    return candidates


def _problem(home: Path) -> str | None:
    """Why `home` cannot be used; None if it can."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return "no bin/java there"
    version, modules = _release(home)
    if version is None or modules is None:
        version, modules = _asked(java)
    if version is None:
        return "it does not say its version"
    if version < MINIMUM:
        return f"Java {version}"
    return None if MODULE in (modules or ()) else f"lacks {MODULE}"


def _release(home: Path) -> tuple[int | None, list[str] | None]:
    """Version and modules from the `release` file that most builds carry: no JVM has to start."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    return (int(version.group(1)) if version else None), (modules.group(1).split() if modules else None)


def _asked(java: Path) -> tuple[int | None, list[str]]:
    def run(option: str) -> str:
        try:
            done = subprocess.run([str(java), option], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout + done.stderr

    version = re.search(r'version "(?:1\.)?(\d+)', run("-version"))
    return (int(version.group(1)) if version else None), re.findall(r"^([\w.]+)@", run("--list-modules"), re.MULTILINE)
