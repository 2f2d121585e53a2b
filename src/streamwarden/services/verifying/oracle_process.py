"""Asks a job's oracle for the expected output, in a process of its own.

What a run wrote is closed to that process: an oracle that copied the output would find every output right. The process
gets the job's path and the questions as a pickle, and answers with the expectations, or with the error.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.processes import ending_with_us
from streamwarden.errors import VerificationError
from streamwarden.services.verifying.oracle_fence import Fence
from streamwarden.services.verifying.oracle_files import load_oracle, oracle_file
from streamwarden.verification.oracle import Expectation, RunFacts

Question = tuple[Sequence[Path], RunFacts]
"""The arguments of an oracle."""

_TASK: Final = "task"
_ANSWER: Final = "answer"
_LOG: Final = "log"
_LAST: Final = 500
"""Characters of the log that an error shows."""


def ask_oracle(job: Path, questions: Sequence[Question], *, closed: Sequence[str], into: Path) -> list[Expectation]:
    """The oracle's answer to each question.

    Args:
        closed: folders that it may not read, apart from the input in them.
        into: a folder for what the two processes exchange; the process has its temporary files there.

    Raises VerificationError if there is no oracle, if it fails, or if it tried to read a closed folder.
    """
    folder = into / "oracle"
    folder.mkdir()
    given = {str(path.parent) for inputs, facts in questions for path in _files(inputs, facts)}
    task = {"job": job, "questions": list(questions), "closed": list(closed), "given": [*given, str(into)]}
    (folder / _TASK).write_bytes(pickle.dumps(task))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)}
    with (folder / _LOG).open("wb") as log:
        status = subprocess.run(
            [*ending_with_us(), sys.executable, "-m", __name__, str(folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
    if not (folder / _ANSWER).exists():
        said = (folder / _LOG).read_text(encoding="utf-8", errors="replace")[-_LAST:].strip()
        raise _failed(job, f"its process ended with status {status}: {said}")
    try:
        answer: list[Expectation] | VerificationError = pickle.loads((folder / _ANSWER).read_bytes())  # noqa: S301
    except (AttributeError, ImportError) as error:
        raise _failed(job, f"its rows or notes have values of a class that the oracle defines ({error})") from error
    if isinstance(answer, VerificationError):
        raise answer
    return answer


def _files(inputs: Sequence[Path], facts: RunFacts) -> list[Path]:
    return [*inputs, *(path for files in facts.files.values() for path in files)]


def main(folder: Path) -> None:
    """The process: answer every question, or say why not."""
    task: Mapping[str, Any] = pickle.loads((folder / _TASK).read_bytes())  # noqa: S301
    fence = Fence(task["closed"], task["given"])
    sealed = fence.raise_it()
    answer = _answer(task["job"], task["questions"], sealed=sealed)
    if fence.refused:
        answer = _refused(task["job"], fence.refused[0])
    (folder / _ANSWER).write_bytes(pickle.dumps(answer))


def _answer(job: Path, questions: Sequence[Question], *, sealed: bool) -> list[Expectation] | VerificationError:
    try:
        oracle = load_oracle(job)
        return [_plain(job, oracle(inputs, facts)) for inputs, facts in questions]
    except VerificationError as error:
        return error
    except PermissionError as error:
        return _refused(job, str(error)) if sealed else _raised(job, error)
    except Exception as error:  # the oracle is user code and may raise anything
        return _raised(job, error)


def _plain(job: Path, expectation: object) -> Expectation:
    """The expectation without the classes of the oracle's module, which the other process does not import."""
    if not isinstance(expectation, Expectation):
        raise _failed(job, f"it returned {type(expectation).__name__}")
    return replace(expectation, rows={tuple(key): tuple(values) for key, values in expectation.rows.items()})


def _raised(job: Path, error: Exception) -> VerificationError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return _failed(job, f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})")


def _failed(job: Path, observed: str) -> VerificationError:
    return VerificationError(
        f"the oracle gives no expectation: {observed}",
        expected="an Expectation from expected(inputs, facts)",
        where=str(oracle_file(job)),
        next_step="correct the oracle",
    )


def _refused(job: Path, what: str) -> VerificationError:
    return VerificationError(
        f"the oracle is refused: it tried to read {what}, which a run of the job wrote",
        expected="an oracle that reads the input files that it is given, and nothing that a run wrote",
        where=str(oracle_file(job)),
        next_step="compute the expected rows from `inputs` and `facts` alone",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
