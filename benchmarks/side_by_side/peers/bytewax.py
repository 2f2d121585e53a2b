"""Bytewax: state in memory with snapshots in SQLite. It promises at-least-once on Kafka, so a kill doubles rows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.side_by_side.contender import COMMIT_SECONDS, Place, Running
from benchmarks.side_by_side.installing import PROGRAMS, install_python, python_of
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.outputs import TopicOutput
from benchmarks.side_by_side.peers.process import ProcessRun, running


class Bytewax:
    """A dataflow in Python over an engine in Rust."""

    name = "Bytewax 0.21.1, at least once, started again at once"
    by_key = True

    def cannot(self, job: Job) -> str | None:
        return None

    def install(self) -> None:
        install_python("bytewax")

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        python, recovery = str(python_of("bytewax")), place.root / "recovery"
        recovery.mkdir()
        subprocess.run([python, "-m", "bytewax.recovery", str(recovery), "1"], check=True)
        command = [python, "-m", "bytewax.run", f"{PROGRAMS / 'bytewax' / place.job.name}.py:flow"]
        command += ["-r", str(recovery), "-s", str(COMMIT_SECONDS), "-b", "0", "-w", str(place.job.partitions)]
        environment = {
            "SERVERS": place.servers,
            "SOURCE": place.source,
            "SINK": place.sink,
            "PYTHONPATH": str(PROGRAMS),
        }
        output = TopicOutput(place.servers, place.sink, place.job.partitions)
        with running(ProcessRun(place, lambda: command, output, environment=environment)) as run:
            yield run
