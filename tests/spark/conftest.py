"""What all files of a worker share: a Spark session for what needs no driver, a broker and a PostgreSQL.

Each file has topics and databases of its own. A file that stops its broker or server, or whose broker wants a password,
starts its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from streamwarden.adapters.jvm import maven
from streamwarden.lifecycle.submission import spark_conf
from support.servers.kafka_broker import Broker, broker
from support.servers.postgres_server import PostgreSQL, running
from support.spark.drivers import quick
from support.streams.catalogue import stream


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """On two cores, with one partition of state, and with Spark's connector for topics."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    conf = spark_conf(stream("event_dedup", scratch)) | {
        **quick(scratch),
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, maven.resolve(maven.POMS / "kafka.xml"))),
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # of the workers that run transformWithState
        session = builder.getOrCreate()
    yield session
    session.stop()
    # Py4J's threads log when the JVM ends, to handlers of Airflow's that have what pytest closes next.
    session.sparkContext._gateway.shutdown()
    session.sparkContext._gateway.proc.stdin.close()
    session.sparkContext._gateway.proc.wait(timeout=60)


@pytest.fixture(scope="module")
def spark(spark_session: Any) -> Iterator[Any]:
    """The worker's session. A job may change its settings (some switch batches without data off): each file begins with
    those of the session's start."""
    before = spark_session.conf.getAll
    yield spark_session
    for key, value in spark_session.conf.getAll.items():
        if key not in before:
            spark_session.conf.unset(key)
        elif before[key] != value:
            spark_session.conf.set(key, before[key])


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with running() as server:
        yield server
