"""PyFlink: a cluster in one JVM, RocksDB, a checkpoint each second, transactions of Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.side_by_side.contender import COMMIT_SECONDS, Place, Running
from benchmarks.side_by_side.installing import PROGRAMS, install_python, python_of
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.outputs import TopicOutput
from benchmarks.side_by_side.peers.process import ProcessRun, running

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.java import find_java

CONNECTOR = PROGRAMS / "pyflink" / "connector.xml"
COMPLETED = re.compile(r"Completed checkpoint \d+ for job \w+ \(.*?checkpointDuration=(\d+) ms")


class PyFlink:
    """Flink in its Python API."""

    name = "PyFlink 2.3.0, RocksDB, started again at once"
    by_key = False

    def cannot(self, job: Job) -> str | None:
        return None

    def install(self) -> None:
        install_python("pyflink")
        maven.resolve(CONNECTOR)

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        environment = {
            "JAVA_HOME": str(find_java()),
            "FLINK_LOG_DIR": str(place.root / "logs"),
            "PYTHONPATH": str(PROGRAMS),
        }
        (place.root / "logs").mkdir()

        def command() -> list[str]:
            put_aside(place.root / "logs")
            return [str(python_of("pyflink")), str(program(place.job)), json.dumps(arguments(place))]

        output = TopicOutput(place.servers, place.sink, place.job.partitions)
        run = ProcessRun(place, command, output, lambda: seconds(place.root / "logs"), environment)
        with running(run) as process:
            yield process


def program(job: Job) -> Path:
    """The job's program."""
    return PROGRAMS / "pyflink" / f"{job.name}.py"


def arguments(place: Place) -> dict[str, object]:
    """What the program is given; see `programs/pyflink/settings.py`."""
    checkpoints = place.root / "checkpoints"
    return {
        "servers": place.servers,
        "source": place.source,
        "sink": place.sink,
        "partitions": place.job.partitions,
        "folder": str(checkpoints),
        "jars": ";".join(f"file://{jar}" for jar in maven.jars(CONNECTOR)),
        "seconds": COMMIT_SECONDS,
        "resume": newest(checkpoints),
    }


def newest(checkpoints: Path) -> str | None:
    """The last checkpoint that was completed: its metadata is written last."""
    found = list(checkpoints.glob("*/chk-*/_metadata"))
    return str(max(found, key=lambda path: path.stat().st_mtime).parent) if found else None


def put_aside(logs: Path) -> None:
    """Flink begins its log anew at each start."""
    for number, path in enumerate(sorted(logs.glob("*.log"))):
        path.rename(logs / f"before-{len(list(logs.iterdir()))}-{number}.kept")


def seconds(logs: Path) -> Sequence[float]:
    """Of each checkpoint, from Flink's own log."""
    texts = (path.read_text(errors="replace") for path in [*logs.glob("*.log"), *logs.glob("*.kept")])
    return [int(found) / 1000 for text in texts for found in COMPLETED.findall(text)]
