"""A stream that is upgraded: a checkpoint that a real Spark wrote, the job that wrote it, and new versions of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.spark.drivers import QUICK
from support.spark.worker import minute_of_rows, publish

FILES = 17
"""Of them the stream has read 13, in the batches 0 to 13."""

JOB = """\
from pyspark.sql import functions as F


def build(spark, spec):
    source = spark.readStream.schema("id long, key string, at long").options(**spec.source.options)
    rows = source.option("maxFilesPerTrigger", "1").json(spec.source.path)
    at = rows.withColumn("at", F.timestamp_millis("at")).withWatermark("at", "60 seconds")
    windows = at.groupBy(F.window("at", "60 seconds"), "key")
    counts = windows.agg(F.count("*").alias("n"), F.sum("id").alias("total"))
    return counts.select(F.col("window.start").alias("start"), "key", "n", "total")
"""

STREAM = """\
# The counts of each minute.
name: minutes
job: spark_jobs/minutes.py   # the version in force
source: {path: origin/input, max_files_per_trigger: 1}
sink: {path: origin/output}
checkpoint: origin/checkpoint
state: {shuffle_partitions: 2}
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""


def lay_out(project: Path, unpack: Unpack) -> StreamSpec:
    """A project with the stream `minutes`, whose query has committed the batches 0 to 13."""
    root = project / "var/origin"
    unpack("spark-4.3.0-changelog", root)
    for index in range(FILES):
        publish(root / "input", index, minute_of_rows(index))
    declare(project)
    spec = stream_of(root, files=0)
    return replace(
        spec,
        job=str(project / "spark_jobs/minutes.py"),
        state=StateSpec(shuffle_partitions=2),
        spark=SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=dict(QUICK)),
        project=str(project),
        data=str(project / "var"),
        file=str(project / "config/streams/minutes.yaml"),
    )


def declare(project: Path) -> Path:
    """The stream's file, with its job."""
    for name, text in (("spark_jobs/minutes.py", JOB), ("config/streams/minutes.yaml", STREAM)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return project / "config/streams/minutes.yaml"


def version(project: Path, name: str, old: str = "", new: str = "") -> Path:
    """A version of the job with `old` replaced by `new`."""
    assert old in JOB
    path = project / "spark_jobs" / f"{name}.py"
    path.write_text(JOB.replace(old, new) if old else JOB)
    return path
