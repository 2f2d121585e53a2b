"""Asks the process that reads and compares the outputs of a crash matrix: see `judge_process`."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streamwarden.drills.crash_states import Ending

_MODULE: Final = "streamwarden.services.crash_matrix.judge_process"
_OF_THE_STREAM: Final = frozenset({"PYTHONPATH", "PYTHONHOME"})
"""Variables by which Spark leads Python to the packages of the stream's environment."""


class Judge:
    """A judge that runs. Each method raises RuntimeError if it has ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def read(self, name: str, until: int) -> str:
        """Let it read the output at the place, which has the batches up to `until`, under a name. Returns the error in
        words, empty if there was none."""
        return str(self._ask({"read": name, "until": until})["refused"])

    def compare(self, expected: str, actual: str) -> tuple[Ending, str]:
        """How a restart with the output `actual` ended, and why. `actual` is not kept."""
        answer = self._ask({"compare": expected, "with": actual})
        return Ending(answer["ending"]), str(answer["detail"])

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None, "it has pipes"
        assert self._process.stdout is not None, "it has pipes"
        try:
            self._process.stdin.write(f"{json.dumps(question)}\n".encode())
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise RuntimeError("the process that reads and compares the outputs has ended") from error


@contextmanager
def judge(python: str, folder: Path) -> Iterator[Judge]:
    """A judge of the stream whose spec is in `folder`, in the environment of the interpreter `python`."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_THE_STREAM}
    command = [python, "-m", _MODULE, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, bufsize=0) as process:
        yield Judge(process)  # leaving it closes the pipes, which ends the process
