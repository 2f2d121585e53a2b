"""The real promtool."""

from __future__ import annotations

import subprocess

from support.servers.programs import program


def promtool(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run promtool; standard output and error are one text. Raises FileNotFoundError if it is not installed."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, (done.stdout + done.stderr).decode())
