"""Spark itself: the catalogue's stream on a topic, under Streamwarden with a warm standby, and under spark-submit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import yaml
from benchmarks.side_by_side.contender import COMMIT_SECONDS, Place, Running
from benchmarks.side_by_side.installing import PROGRAMS
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.outputs import ParquetOutput
from benchmarks.side_by_side.peers.process import ProcessRun, running

from streamwarden.adapters import processes
from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import with_connector
from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.adapters.store import Store
from streamwarden.config.loading import load_stream
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.health.signals.series import checkpoint_seconds
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.submission import driver_properties, properties_text
from streamwarden.progress import Progress, parse_progress
from streamwarden.services.fleet.launching.launch import driver_environment
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.stream.spec import StreamSpec

REPOSITORY = Path(__file__).resolve().parents[3]
CONNECTION = "side_by_side"


def declaration(place: Place, **more: Any) -> dict[str, Any]:
    """The catalogue's own file with a topic for its folder, and a trigger each second."""
    own: dict[str, Any] = yaml.safe_load((REPOSITORY / f"config/streams/{place.job.stream}.yaml").read_text())
    source = {
        "kind": "kafka",
        "connection": CONNECTION,
        "topic": place.source,
        "max_offsets_per_trigger": place.batch,
        "options": {**own["source"].get("options", {}), "startingOffsets": "earliest"},
    }
    conf = {**own["spark"].get("conf", {}), "spark.sql.streaming.minBatchesToRetain": "720"}
    return {
        **own,
        "source": source,
        "trigger": {"processing_time": f"{COMMIT_SECONDS} s"},
        "restart": {"initial": "1s", "cap": "1s", "budget": "1000 per hour", "healthy_after": "1s"},
        "spark": {**own["spark"], "conf": conf},
        **more,
    }


def project(place: Place, **more: Any) -> StreamSpec:
    """A project with this one stream; the broker is known by the environment."""
    os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"] = json.dumps(
        {"conn_type": "kafka", "extra": {"bootstrap.servers": place.servers}}
    )
    shutil.copytree(REPOSITORY / "spark_jobs", place.root / "spark_jobs")
    file = place.root / "config" / "streams" / f"{place.job.stream}.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump(declaration(place, **more)))
    return load_stream(file, project=place.root, data=place.root / "var")


def output(spec: StreamSpec) -> ParquetOutput:
    """Of the stream's sink."""
    return ParquetOutput(Path(str(spec.sink.path)))


class Spark:
    """Both ways to run it read the topic with the same jars."""

    by_key = False

    def cannot(self, job: Job) -> str | None:
        return None

    def install(self) -> None:
        maven.resolve(maven.POMS / "kafka.xml")


class Bare(Spark):
    """The same query with the same settings under spark-submit alone."""

    name = f"Spark {pyspark.__version__}, spark-submit alone, started again at once"

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        spec = project(place)
        reports = place.root / "reports.jsonl"
        folder = place.root / "driver"
        (folder / "tmp").mkdir(parents=True)
        (place.root / "spec.json").write_text(json.dumps(spec_to_dict(spec)))
        conf = with_connector(spec, driver_properties(spec, folder, python=sys.executable), own().minor)
        (place.root / "spark.properties").write_text(properties_text(conf))
        command = [str(spark_home() / "bin" / "spark-submit"), "--properties-file"]
        command += [str(place.root / "spark.properties"), str(PROGRAMS / "bare_spark.py"), str(place.root)]
        environment = driver_environment(spec, place.root / "var", "sqlite://", None, own_spark=True)

        def seconds() -> Sequence[float]:
            lines = reports.read_text().splitlines() if reports.exists() else []
            return checkpoint_seconds(spec, [parse_progress(json.loads(line)) for line in lines])

        with running(ProcessRun(place, lambda: command, output(spec), seconds, environment)) as run:
            yield run


class Supervised:
    """A run under `streamwarden start --supervise`, which sees the kill and lets the standby take over."""

    def __init__(self, spec: StreamSpec, store: Store, data: Path, *, standby: bool) -> None:
        self.output = output(spec)
        self._spec, self._store, self._data, self._standby = spec, store, data, standby

    def checkpoints(self) -> Sequence[float]:
        window = self._store.batches.window(self._spec.name)
        reports: list[Progress] = [batch.progress for batch in window if batch.progress is not None]
        return checkpoint_seconds(self._spec, reports)

    def kill(self) -> None:
        driver = self._driver()
        assert driver is not None
        assert driver.process is not None
        processes.signal_group(driver.process, signal.SIGKILL)

    def ready(self) -> bool:
        """A driver runs, and its standby waits."""
        found = next(iter(waiting(self._data / "drivers" / self._spec.name)), None)
        return not self._standby or (found is not None and found.is_ready(time.time()))

    def _driver(self) -> DriverRecord | None:
        return self._store.drivers.latest(self._spec.name)


class Streamwarden(Spark):
    """The stream as the product runs it.

    Args:
        standby: it has a warm standby.
    """

    def __init__(self, *, standby: bool) -> None:
        self._standby = standby
        how = "with a warm standby" if standby else "without a standby"
        self.name = f"Streamwarden, Spark {pyspark.__version__}, {how}"

    @contextmanager
    def run(self, place: Place) -> Iterator[Running]:
        spec = project(place, **({"standby": "warm"} if self._standby else {}))
        data = place.root / "var"
        data.mkdir(exist_ok=True)
        command = [str(Path(sys.executable).with_name("streamwarden")), "--project", str(place.root)]
        with Store(f"sqlite:///{data / 'streamwarden.db'}", busy_timeout=30) as store:
            store.migrate()
            with (place.root / "log").open("wb") as log:
                supervisor = subprocess.Popen([*command, "start", spec.name, "--supervise"], stdout=log, stderr=log)
            run = Supervised(spec, store, data, standby=self._standby)
            try:
                yield run
            finally:
                supervisor.send_signal(signal.SIGINT)
                supervisor.wait()
                subprocess.run([*command, "stop", spec.name], stdout=subprocess.DEVNULL, check=False)
                run.output.close()
