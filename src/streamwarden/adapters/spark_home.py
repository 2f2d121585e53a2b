"""Where the Spark lies that was installed with this package."""

from __future__ import annotations

import sys
from pathlib import Path

from streamwarden.errors import ProcessError


def spark_home() -> Path:
    """The Spark that was installed with this package, whatever SPARK_HOME says. Raises ProcessError if it is gone."""
    from importlib.util import find_spec

    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ProcessError(
            "PySpark is not installed",
            expected="pyspark in this environment",
            where=sys.prefix,
            next_step="run: make setup",
        )
    return Path(found.origin).parent
