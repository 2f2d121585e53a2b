"""The real promtool, which `make setup-tests` puts into .venv/bin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def promtool(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run promtool; standard output and error are one text. Raises FileNotFoundError if it is not installed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which("promtool", path=path)
    if program is None:
        raise FileNotFoundError("promtool is not there: run `make setup-tests`")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, timeout=60, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, (done.stdout + done.stderr).decode())
