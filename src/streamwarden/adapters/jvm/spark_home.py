"""The home of the Spark that was installed with this package."""

import sys
from pathlib import Path
from typing import Final

from streamwarden.errors import ProcessError

QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds: it compiles cheaply, and collects on one thread."""


def spark_home() -> Path:
    """The Spark that was installed with this package, whatever SPARK_HOME says. Raises ProcessError if it is gone."""
    from importlib.util import find_spec

    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise ProcessError(
            "PySpark is not installed",
            expected="pyspark in this environment",
            where=sys.prefix,
            next_step="install the PySpark that the stream runs on, or run `make setup` in a checkout",
        )
    return Path(package.origin).parent
