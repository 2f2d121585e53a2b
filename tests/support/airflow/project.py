"""A small project with real streams for the tests that run Airflow: YAML files, PySpark jobs, and a producer."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.workspace import Workspace
from support.airflow.harness import REPOSITORY


def living_driver(
    space: Workspace,
    driver_id: str,
    launched_at: float | None = None,
    stream: str = "counted",
    checkpoint: str | None = None,
) -> DriverRecord:
    """A driver that lives: this very process stands for it. Without `checkpoint`, the project is read to find it."""
    record = DriverRecord(
        driver_id=driver_id,
        stream=stream,
        checkpoint=checkpoint or space.stream(stream).checkpoint,
        token=1,
        folder=str(space.data / "nowhere"),
        launched_by="test",
        launched_at=time.time() if launched_at is None else launched_at,
        process=processes.identity(os.getpid()),
    )
    space.store.drivers.launched(record)
    return record


COUNTING_JOB = '''
"""Counts events per key and ten seconds of event time."""

from pyspark.sql import functions as F


def build(spark, spec):
    events = (
        spark.readStream.schema("key STRING, at TIMESTAMP")
        .option("maxFilesPerTrigger", spec.source.max_files_per_trigger)
        .json(spec.source.path)
    )
    windows = F.window("at", "10 seconds")
    return events.withWatermark("at", "1 minute").groupBy(windows, "key").count().select("window.start", "key", "count")
'''

RAISING_JOB = '''
"""Its query starts, and every batch fails."""

from pyspark.sql import functions as F


def build(spark, spec):
    events = spark.readStream.schema("key STRING").json(spec.source.path)
    return events.select(F.raise_error(F.lit("the table of prices is not reachable")).cast("string").alias("key"))
'''

WRONG_JOB = '''
"""Builds nothing: it asks for a column that its input does not have any more."""


def build(spark, spec):
    return spark.readStream.schema("key STRING").json(spec.source.path).select("price")
'''

STREAM = """
name: {name}
description: {description}
owner: integration
tags: [tiny]
job: spark_jobs/{job}
source: {{kind: files, path: input/{name}, format: json, max_files_per_trigger: 1}}
sink: {{kind: parquet, path: output/{name}}}
checkpoint: checkpoints/{name}
trigger: {{processing_time: 1 second}}
state: {{shuffle_partitions: 1}}
restart: {{initial: {initial}, factor: 2, cap: 8s, budget: {budget} per hour, healthy_after: 1h}}
stop: {{batch_deadline: 60s, term_deadline: 20s}}
spark:
  master: "local[1]"
  driver_memory: 1 GB
  conf:
    spark.sql.streaming.minBatchesToRetain: "5000"   # on a busy machine an audit takes longer than a hundred batches
    spark.sql.codegen.wholeStage: "false"   # a driver starts faster
    spark.sql.codegen.factoryMode: NO_CODEGEN
"""


def make_project(root: Path) -> Path:
    """`root` as a project with the repository's DAG files and no stream."""
    for folder in ("config/streams", "config/drills", "spark_jobs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copytree(REPOSITORY / "dags", root / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "spark_jobs" / "counting.py").write_text(COUNTING_JOB)
    (root / "spark_jobs" / "raising.py").write_text(RAISING_JOB)
    (root / "spark_jobs" / "wrong.py").write_text(WRONG_JOB)
    return root


def add_stream(
    project: Path,
    name: str,
    *,
    job: str = "counting.py",
    initial: str = "2s",
    budget: int = 5,
    description: str = "Counts events per key",
) -> Path:
    """Add `config/streams/NAME.yaml`."""
    path = project / "config" / "streams" / f"{name}.yaml"
    path.write_text(STREAM.format(name=name, job=job, initial=initial, budget=budget, description=description))
    return path


@contextmanager
def repeated(action: Callable[[], None], *, every: float) -> Iterator[None]:
    """The action is carried out after each `every` seconds meanwhile, in a thread."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Producer:
    """Publishes files of events, each whole (by rename), one second of event time a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.published = 0
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A file appears every three seconds meanwhile, as the input of a live stream does. Each batch takes processor
        time from all tests."""
        with repeated(lambda: self.publish(1), every=3.0):
            yield

    def publish(self, files: int, rows: int = 20) -> None:
        for _ in range(files):
            second = self.published
            at = f"2024-01-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
            lines = [json.dumps({"key": f"k{row % 5}", "at": at}) for row in range(rows)]
            part = self.folder / f".{second:06d}.part"
            part.write_text("\n".join(lines) + "\n")
            os.utime(part, (1_700_000_000 + second, 1_700_000_000 + second))  # the order in which Spark reads files
            part.rename(self.folder / f"{second:06d}.json")
            self.published += 1
