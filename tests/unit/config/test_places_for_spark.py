"""Every folder of a stream goes to Spark as a URI: Spark looks a bare path up in Hadoop's default file system."""

from dataclasses import replace

import pytest

from streamwarden.checkpoint.formats.uris import of_hadoop, to_hadoop
from streamwarden.config.places import for_spark, located, locations
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec

SPEC = StreamSpec(
    name="a",
    job="/p/a.py",
    checkpoint="/data/a b",
    queries={"left": "/data/left", "right": None},
    source=FilesSource(path="/data/in%20", parts=("x", "y")),
    sink=ParquetSink(path="/data/out"),
    quarantine="/data/bad",
    savepoints=SavepointsSpec(folder="/data/saved"),
    data="/data",
)


def test_each_folder_on_a_disk_becomes_a_uri_and_nothing_else_changes() -> None:
    told = for_spark(SPEC)
    assert locations(told) == {key: f"file:{path}" for key, path in locations(SPEC).items()}
    assert told.source.folders == ("file:/data/in%20/x", "file:/data/in%20/y")
    assert (told.job, told.data) == ("/p/a.py", "/data")
    assert located(told, of_hadoop) == SPEC


@pytest.mark.parametrize("url", ["hdfs://host:9000/a b", "hdfs:///a", "s3a://bucket/a"])
def test_what_is_a_url_already_goes_to_spark_as_it_is(url: str) -> None:
    assert for_spark(replace(SPEC, checkpoint=url)).checkpoint == url


@pytest.mark.parametrize("text", ["file:/a%20 b", "file:///a%20 b", "/a%20 b"])
def test_every_way_to_write_a_local_place_is_the_one_path(text: str) -> None:
    assert of_hadoop(text) == "/a%20 b"
    assert of_hadoop(to_hadoop(of_hadoop(text))) == "/a%20 b"
