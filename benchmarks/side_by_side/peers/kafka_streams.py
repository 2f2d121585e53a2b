"""Kafka Streams: RocksDB with changelog topics, exactly-once transactions; a Maven project below `programs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.side_by_side.contender import COMMIT_SECONDS, Place, Running
from benchmarks.side_by_side.installing import install_java
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.outputs import TopicOutput
from benchmarks.side_by_side.peers.process import ProcessRun, running

from streamwarden.adapters.jvm.java import find_java


class KafkaStreams:
    """A library of Java."""

    name = "Kafka Streams 4.1.1, started again at once"
    by_key = False

    def cannot(self, job: Job) -> str | None:
        return None

    def install(self) -> None:
        install_java("kafka_streams")

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        reports = place.root / "commits"
        jars = f"{install_java('kafka_streams')}/*"
        command = [str(find_java() / "bin" / "java"), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", jars, "peers.Main", place.job.name, place.servers, place.source, place.sink]
        command += [str(place.root / "state"), str(place.job.partitions), str(COMMIT_SECONDS), str(reports)]
        output = TopicOutput(place.servers, place.sink, place.job.partitions)
        with running(ProcessRun(place, lambda: command, output, lambda: seconds(reports))) as run:
            yield run


def seconds(reports: Path) -> Sequence[float]:
    """Means of the newest commits, one each second."""
    return [float(line) / 1000 for line in reports.read_text().splitlines()] if reports.exists() else []
