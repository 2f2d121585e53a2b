"""Programs that `make setup-tests` puts into .venv/bin: promtool and nginx."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program(name: str) -> str:
    """Path of the program. Raises FileNotFoundError if it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        raise FileNotFoundError(f"{name} is not there: run `make setup-tests`")
    return found
