"""A fork's driver that would write to the stream's own places ends before anything of them exists.

A script names its places itself; a job with build() may. Both end with an error that says so and no restart cures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import COUNTS, Project, project

pytestmark = pytest.mark.spark

SCRIPT = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
query = rows.writeStream.format("parquet").option("checkpointLocation", {checkpoint!r}).start({output!r})
query.awaitTermination()
"""

BUILD = (
    COUNTS.replace("    return (", "    counts = (")
    + """
    return counts.writeStream.format("parquet").option("path", {output!r})
"""
)

SECOND_QUERY = (
    COUNTS.replace("    return (", "    counts = (")
    + """
    counts.writeStream.format("parquet").option("checkpointLocation", {checkpoint!r}).start({output!r})
    return counts
"""
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("fence")) as it:
        it.publish(2)
        yield it


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("script", SCRIPT, "this fork cannot run a script"),
        ("build", BUILD, "the fork's job starts a query with the output path"),
        pytest.param(
            "second", SECOND_QUERY, "the fork's job starts a query with the checkpoint", marks=pytest.mark.full
        ),
    ],
)
def test_a_fork_that_would_write_to_the_streams_own_places_ends_first(
    made: Project, name: str, text: str, said: str
) -> None:
    production = made.root / "production" / name
    checkpoint, output = production / "checkpoint", production / "output"
    job = text.format(checkpoint=str(checkpoint), output=str(output))
    spec: StreamSpec = made.spec(f"{name}__fork_0123456789", job)
    record = made.await_end(made.start(spec))
    assert (record.kind, record.error_class, record.curable) == (ExitKind.FAILED, "JobError", False), record
    assert said in record.message
    assert not production.exists()
    assert not Path(spec.checkpoint).exists()
    assert not Path(str(spec.sink.path)).exists()


@pytest.mark.full  # every drill of the first tier runs a fork
def test_a_fork_within_its_own_places_runs(made: Project) -> None:
    spec = made.spec("counts__fork_0123456789", COUNTS)
    driver_id = made.start(spec)
    made.await_batches(spec, 2)
    made.fleet.request_stop(spec.name, requested_by="test", reason="enough", restart=True)
    assert made.await_end(driver_id).kind is ExitKind.STOPPED
