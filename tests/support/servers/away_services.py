"""What Spark's own clients raise when a service is away: each is pointed at a port that nothing listens on.

`run` is the client; this file run as a script is the program. What is raised is recorded as the driver does it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

CLOSED = "127.0.0.1:1"
YARN = {
    "yarn.resourcemanager.address": CLOSED,
    "yarn.resourcemanager.connect.max-wait.ms": "1000",
    "yarn.resourcemanager.connect.retry-interval.ms": "500",
}
CORE = {"ipc.client.connect.max.retries": "1", "ipc.client.connect.retry.interval": "100"}
S3A = {
    "spark.hadoop.fs.s3a.endpoint": f"http://{CLOSED}",
    "spark.hadoop.fs.s3a.access.key": "ann",
    "spark.hadoop.fs.s3a.secret.key": "word",
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "0",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    "spark.hadoop.fs.s3a.path.style.access": "true",
}
KAFKA = {
    "kafka.bootstrap.servers": CLOSED,
    "subscribe": "events",
    "kafka.default.api.timeout.ms": "1500",
    "kafka.request.timeout.ms": "1000",
}


def run(root: Path, jars: list[str]) -> dict[str, Any]:
    """Service -> the exit record as JSON; None: nothing was raised."""
    hadoop = root / "hadoop"
    hadoop.mkdir()
    (hadoop / "yarn-site.xml").write_text(_site(YARN))
    (hadoop / "core-site.xml").write_text(_site(CORE))
    environment = {
        "HADOOP_CONF_DIR": str(hadoop),
        "KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT": "0",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (root / "spark.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, __file__, json.dumps({"root": str(root), "jars": jars})],
            stdout=log,
            stderr=log,
            timeout=300,
            env={**os.environ, **environment},
        )
    assert done.returncode == 0, (root / "spark.log").read_text(errors="replace")[-3000:]
    answer: dict[str, Any] = json.loads((root / "answer.json").read_text())
    return answer


def _site(settings: Mapping[str, str]) -> str:
    each = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    return f"<configuration>{''.join(each)}</configuration>"


def _record(action: Callable[[], object]) -> dict[str, Any] | None:
    from dataclasses import asdict

    from streamwarden.lifecycle.failures.exits import failure
    from streamwarden.spark.driver.failures import chain_of, describe

    try:
        action()
    except Exception as error:
        kind, message = describe(error, __file__)
        return asdict(failure(kind, message, at=0.0, cut_batch=None, built=False, chain=chain_of(error)))
    return None


def _session(master: str, conf: Mapping[str, str]) -> Any:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(arguments: Mapping[str, Any]) -> None:
    conf = {**S3A, "spark.jars": ",".join(arguments["jars"]), "spark.local.dir": f"{arguments['root']}/local"}
    spark = _session("local[1]", conf)
    topic = spark.read.format("kafka").options(**KAFKA)
    answer = {
        "the NameNode of HDFS": _record(lambda: spark.read.text(f"hdfs://{CLOSED}/x")),
        "the name of a host": _record(lambda: spark.read.text("hdfs://no-such-host.invalid:1/x")),
        "the object store": _record(lambda: spark.read.text("s3a://bucket/x")),
        "the Kafka broker": _record(lambda: topic.load().count()),
        "the API server of Kubernetes": _record(
            lambda: _session(f"k8s://https://{CLOSED}", {"spark.kubernetes.container.image": "x"})
        ),
        "the ResourceManager of YARN": _record(lambda: _session("yarn", {})),
    }
    Path(arguments["root"], "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
