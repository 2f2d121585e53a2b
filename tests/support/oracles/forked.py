"""Oracles in processes that are forked, for tests of what becomes of their answers.

The process itself, as it is started and fenced, is tested in tests/unit/services/proofs/test_oracle_process.py; to
start Python and to import an oracle's modules takes twenty times as long as to answer a question about ten rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import BinaryIO

from streamwarden.services.verifying import oracle_process
from support.killed import status_of


def run(
    command: Sequence[str], *, env: Mapping[str, str], stdin: int, stdout: BinaryIO, stderr: BinaryIO, check: bool
) -> CompletedProcess[bytes]:
    """In place of `subprocess.run` in `oracle_process`."""
    status = status_of(partial(_answer, Path(command[-1]), Path(stdout.name), env["TMPDIR"]))
    return CompletedProcess(command, os.waitstatus_to_exitcode(status))


def _answer(folder: Path, log: Path, temporary: str) -> None:
    os.environ["TMPDIR"] = temporary
    with log.open("wb") as written:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
    oracle_process.main(folder)
