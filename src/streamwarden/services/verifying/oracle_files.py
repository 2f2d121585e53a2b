"""Finds and imports the oracle of a job.

The oracle of the job FOLDER/NAME.py is the function `expected` in FOLDER/oracles/NAME.py (see verification.oracle).
"""

import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import Final, cast

from streamwarden.errors import VerificationError
from streamwarden.lifecycle.job_files import imported_names
from streamwarden.verification.oracle import Oracle

_OTHERS: Final = frozenset({"streamwarden", *sys.stdlib_module_names})
"""Packages that are no job."""


def oracle_file(job: Path) -> Path:
    """The oracle file of a job, if it has one."""
    return job.parent / "oracles" / job.name


def load_oracle(job: Path) -> Oracle:
    """The oracle of a job. Raises VerificationError if there is none, it imports the job, or it cannot be imported."""
    file = oracle_file(job)
    if not file.is_file():
        raise VerificationError(
            "the job has no oracle",
            expected="a file with the function expected(inputs, facts)",
            where=str(file),
            next_step="write it from the question that the job answers, without importing the job",
        )
    _require_apart(file)
    name = f"streamwarden_oracle_{file.stem}"
    module_spec = importlib.util.spec_from_file_location(name, file)
    assert module_spec is not None  # it is a .py file
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:  # the oracle is user code and may raise anything
        raise VerificationError(
            f"the oracle cannot be imported: {type(error).__name__}: {error}",
            expected="a module that imports",
            where=str(file),
            next_step="correct it",
        ) from error
    if not callable(getattr(module, "expected", None)):
        raise VerificationError(
            "the oracle has no function `expected`",
            expected="expected(inputs, facts) -> Expectation",
            where=str(file),
            next_step="name it so",
        )
    return cast(Oracle, module.expected)


def _require_apart(oracle: Path) -> None:
    """Raises VerificationError if the oracle imports its job, whose file has the same name: an error of code that both
    run would be in the output and in what is expected of it."""
    with contextlib.suppress(SyntaxError):  # importing it raises the same
        for name in imported_names(oracle.read_text(encoding="utf-8")):
            if oracle.stem in name.split(".") and name.partition(".")[0] not in _OTHERS:
                raise VerificationError(
                    f"the oracle imports the job: {name}",
                    expected="an oracle that shares no code with the job",
                    where=str(oracle),
                    next_step="write what it needs from the question that the job answers, without importing the job",
                )
