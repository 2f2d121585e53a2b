"""The program that spark-submit runs for a group, whose JVM serves the drivers of several streams.

Argument: the folder of the group's host.
"""

import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).resolve().parent)]

from pyspark.sql import SparkSession

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.groups.group import HOST, HostRecord
from streamwarden.spark.groups.host import GroupHost
from streamwarden.spark.internals.jvm import jvm_clock
from streamwarden.spark.internals.skip_numpy import without_numpy
from streamwarden.spark.log import say
from streamwarden.spark.watches.heartbeat import Heartbeat


def _say(kind: str, **detail: str) -> None:
    say(f"{kind} {detail}")


def main(argv: list[str]) -> int:
    """Host the group of the folder `argv[1]`; returns the exit code. The JVM ends with this process."""
    folder = Path(argv[1])
    jvm, document = processes.identity(os.getppid()), files.read_document(folder / HOST)
    if jvm is None or document is None:
        return 1
    without_numpy()
    record = HostRecord.from_document(document)
    Heartbeat(jvm_clock(), folder, jvm, bound=record.unresponsive_after, report=_say).start()
    session: Any = SparkSession.builder.getOrCreate()
    return GroupHost(folder, session, jvm).serve()


if __name__ == "__main__":
    status = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
