"""Reads a driver's executors from Spark's REST API: running and lost ones, and the memory that each may take.

The API is the driver's own web UI: <https://spark.apache.org/docs/latest/monitoring.html#rest-api>. It is read without
credentials, and never through a proxy: the driver asks itself.
"""

import json
import re
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from streamwarden.errors import ProcessError
from streamwarden.lifecycle.settings import EXECUTOR_HEAP

TIMEOUT: Final = 5.0
MOST_BYTES: Final = 16 * 2**20
"""Of an answer: a thousand executors take about 2 MB."""

DRIVER: Final = "driver"
"""The API lists the driver as an executor of this id."""

_MIB: Final = 2**20
_UNITS: Final = {"": None, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE: Final = re.compile(r"\s*(\d+)\s*+([bkmgtp]?)b?\s*", re.IGNORECASE)
_MEANT: Final = re.compile(r"(?i)killed by driver|explicit termination request|decommission")
"""Spark's own words for a removal that it wanted (dynamic allocation): nothing was lost. The API has no code for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExecutor:
    """One executor, living or removed.

    Args:
        host: `host:port`.
        reason: why it was removed; empty while it is alive.
        lost: it ended without having been stopped by Spark.
    """

    id: str
    host: str
    active: bool
    cores: int = 0
    failed_tasks: int = 0
    reason: str = ""

    @property
    def lost(self) -> bool:
        return not self.active and _MEANT.search(self.reason) is None


def parse_executors(document: object) -> tuple[SparkExecutor, ...]:
    """The answer of `/applications/ID/allexecutors`, without the driver. Raises ValueError for anything else."""
    if not isinstance(document, list):
        raise ValueError(f"a list of executors was expected, not {type(document).__name__}")
    return tuple(_executor(entry) for entry in document if _field(entry, "id") != DRIVER)


def _executor(document: Mapping[str, Any]) -> SparkExecutor:
    return SparkExecutor(
        id=str(_field(document, "id")),
        host=str(document.get("hostPort", "")),
        active=bool(_field(document, "isActive")),
        cores=int(document.get("totalCores", 0)),
        failed_tasks=int(document.get("failedTasks", 0)),
        reason=str(document.get("removeReason") or ""),
    )


def _field(document: object, name: str) -> object:
    if not isinstance(document, Mapping) or name not in document:
        raise ValueError(f"an executor without {name!r}")
    return document[name]


def executor_limit(conf: Mapping[str, str]) -> int:
    """Bytes that an executor may take: its memory and its overhead, as YARN and Kubernetes size its container.

    `spark.executor.memory` + overhead (`spark.executor.memoryOverhead`, else the factor of it, at least the minimum) +
    memory off the heap and of PySpark, where they are set. A standalone worker enforces none of it: there it is what
    was planned for.
    """
    memory = _size(conf, "spark.executor.memory", f"{EXECUTOR_HEAP}b", _MIB)
    factor = conf.get("spark.executor.memoryOverheadFactor") or conf.get("spark.kubernetes.memoryOverheadFactor")
    least = _size(conf, "spark.executor.minMemoryOverhead", "384m", _MIB)
    derived = max(int(float(factor or 0.1) * memory), least)
    overhead = _size(conf, "spark.executor.memoryOverhead", f"{derived}b", _MIB)
    off_heap = conf.get("spark.memory.offHeap.enabled", "false").lower() == "true"
    return (
        memory
        + overhead
        + (_size(conf, "spark.memory.offHeap.size", "0", 1) if off_heap else 0)
        + _size(conf, "spark.executor.pyspark.memory", "0", _MIB)
    )


def _size(conf: Mapping[str, str], key: str, default: str, unit: int) -> int:
    """A size as Spark writes it (`600m`, `4g`), in bytes; `unit` is what a bare number counts."""
    match = _SIZE.fullmatch(conf.get(key, default))
    if match is None:
        raise ValueError(f"{key} is {conf[key]!r}, expected is a size such as 600m or 4g")
    return int(match[1]) * (_UNITS[match[2].lower()] or unit)


def addresses(web_url: str) -> tuple[str, ...]:
    """Addresses of the UI to try from its own host: the loopback first, then the name it gives itself."""
    parts = urlsplit(web_url)
    if parts.scheme != "http" or parts.port is None:
        return (web_url,)
    return (f"http://127.0.0.1:{parts.port}", web_url)


def read_executors(bases: Sequence[str], application: str, *, timeout: float = TIMEOUT) -> tuple[SparkExecutor, ...]:
    """Ask the first of `bases` that answers for this application's executors, removed ones too. Raises ProcessError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    problem: Exception | None = None
    for base in bases:
        url = f"{base.rstrip('/')}/api/v1/applications/{quote(application, safe='')}/allexecutors"
        try:
            with opener.open(url, timeout=timeout) as answer:
                return parse_executors(json.loads(answer.read(MOST_BYTES)))
        except (OSError, ValueError) as error:  # urllib's errors are OSErrors
            problem = error
    raise ProcessError(
        f"Spark's REST API does not report executors: {problem}",
        where=", ".join(bases),
        next_step="check that spark.ui.enabled is true and that no filter of spark.ui.filters blocks it",
    )
