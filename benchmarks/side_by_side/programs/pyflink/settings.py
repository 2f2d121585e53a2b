"""The settings of both PyFlink programs: a cluster in one JVM, RocksDB, a checkpoint each second."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from pyflink.common import Configuration


@dataclass(frozen=True)
class Given:
    """What the benchmark passes as the only argument, in JSON.

    Args:
        folder: for checkpoints; resume: the checkpoint to continue from; jars: URLs, separated by semicolons.
    """

    servers: str
    source: str
    sink: str
    partitions: int
    folder: str
    jars: str
    seconds: int
    resume: str | None


def given() -> Given:
    """Read the argument."""
    values: dict[str, Any] = json.loads(sys.argv[1])
    return Given(**values)


def configuration(of: Given) -> Configuration:
    """Flink's settings."""
    settings = {
        "pipeline.jars": of.jars,
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "parallelism.default": "2",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": f"{of.seconds} s",
        "execution.checkpointing.dir": f"file://{of.folder}",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "table.local-time-zone": "UTC",
        "rest.port": "0",
    }
    found = Configuration()
    for key, value in settings.items():
        found.set_string(key, value)
    if of.resume:
        found.set_string("execution.state-recovery.path", of.resume)
    return found
