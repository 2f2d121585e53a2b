"""What of Spark's internals has another name in another version, and which version this process runs on.

Read from the classes of the releases 3.5.9, 4.0.5, 4.1.4, 4.2.1 and 4.3.0. A name that is not here is the same in all
of them. What a version lacks for a stream as a whole is in `checkpoint.spark_support`.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyspark

Version = tuple[int, int]

RUNNING: Final[Version] = (int(pyspark.__version__.split(".")[0]), int(pyspark.__version__.split(".")[1]))
"""The version of PySpark in this process: major and minor."""

_SQL: Final = "org.apache.spark.sql"
_STREAMING: Final = f"{_SQL}.execution.streaming"

NAMES: Final[Mapping[str, Mapping[Version, str]]] = {
    "TERMINATED": {(3, 5): f"{_STREAMING}.TERMINATED$", (4, 1): f"{_STREAMING}.runtime.TERMINATED$"},
    "Dataset": {(3, 5): f"{_SQL}.Dataset", (4, 0): f"{_SQL}.classic.Dataset"},
}
"""What we call a class -> the version since which it has a name -> that name."""


def name_of(what: str, version: Version = RUNNING) -> str:
    """The full name of a class in a version of Spark."""
    return NAMES[what][max(since for since in NAMES[what] if since <= version)]


def class_of(jvm: Any, what: str) -> Any:
    """The class, as py4j gives it."""
    found = jvm
    for part in name_of(what).split("."):
        found = getattr(found, part)
    return found
