"""Quix Streams: RocksDB with changelog topics, transactions of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.side_by_side.contender import COMMIT_SECONDS, Place, Running
from benchmarks.side_by_side.installing import PROGRAMS, install_python, python_of
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.outputs import TopicOutput
from benchmarks.side_by_side.peers.process import ProcessRun, running

NO_TIMERS = "cannot express the job: its state has no timers, so no session ends by a silence"
CANNOT = {"user_sessions": NO_TIMERS, "device_heartbeats": NO_TIMERS}


class QuixStreams:
    """A client of Kafka in Python."""

    name = "Quix Streams 3.28.1, started again at once"
    by_key = False

    def cannot(self, job: Job) -> str | None:
        return CANNOT.get(job.name)

    def install(self) -> None:
        install_python("quix_streams")

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        command = [str(python_of("quix_streams")), str(PROGRAMS / "quix_streams" / f"{place.job.name}.py")]
        command += [place.servers, place.source, place.sink, str(place.root / "state"), str(COMMIT_SECONDS)]
        output = TopicOutput(place.servers, place.sink, place.job.partitions)
        with running(ProcessRun(place, lambda: command, output)) as run:
            yield run
