"""Reads the file of a stream's job without running it."""

from __future__ import annotations

import ast
from pathlib import Path

from streamwarden.errors import JobError


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
