"""Reads the file of a stream's job, and the modules that it imports, without running them."""

import ast
import contextlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

from streamwarden.errors import JobError

_PIPELINES: Final = "pyspark.pipelines"

MOST_FILES: Final = 200
"""Files of a job that are read at most."""


def has_build(job: Path) -> bool:
    """Whether the file defines `build` at its top level; it is read, not run.

    Raises JobError if it does not exist, OSError if it cannot be read for a reason that may pass.
    """
    try:
        tree = ast.parse(job.read_text(encoding="utf-8"), filename=str(job))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise JobError(
            f"the job cannot be read: {error.strerror}",
            where=str(job),
            next_step="correct `job:` in the stream's YAML file",
        ) from error
    except (SyntaxError, ValueError):
        return False  # running it raises the same, with its line
    return any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)


def imported_names(source: str) -> list[str]:
    """The full names that the imports of a Python source name, wherever they are. Raises SyntaxError, ValueError."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return names


def remote_session(source: str) -> tuple[str, int] | None:
    """What in a Python source needs a Spark that runs elsewhere, and its line. None: nothing.

    It is a pipeline, which `spark-pipelines` runs, or a session of Spark Connect. Raises SyntaxError, ValueError.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "remote" and "builder" in ast.unparse(node.value):
            return "a session of Spark Connect (`builder.remote`)", node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom) and _PIPELINES in imported_names(ast.unparse(node)):
            return f"a pipeline (`{_PIPELINES}`)", node.lineno
    return None


def files_of(job: Path) -> dict[Path, bytes]:
    """Path -> content of the job and of the modules that it imports from its own folder, directly or through another
    of them. A file that cannot be read is left out, as is a module whose name is only computed at run time."""
    contents: dict[Path, bytes] = {}
    waiting = {job}
    while waiting and len(contents) < MOST_FILES:
        file = waiting.pop()
        with contextlib.suppress(OSError):
            contents[file] = file.read_bytes()
            waiting |= {module for module in _modules(file, contents[file], job.parent) if module not in contents}
    return contents


def _modules(file: Path, content: bytes, root: Path) -> Iterator[Path]:
    """The files that the imports of `file` name below `root`, the folder of the job, and beside `file` itself."""
    try:
        names = imported_names(content.decode())
    except (SyntaxError, ValueError):  # the driver fails with the same, and with its line
        return
    for name, folder in product(names, {root, file.parent}):
        at = folder
        for part in filter(None, name.split(".")):
            candidates = at / f"{part}.py", at / part / "__init__.py"
            yield from (candidate for candidate in candidates if candidate.is_file())
            at /= part
