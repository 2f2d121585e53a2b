"""Which jars a driver gets for what its stream reads and writes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden import sinks, sources
from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.connectors import connectors, with_connector
from streamwarden.checkpoint.spark_support import NEWEST
from streamwarden.errors import ConfigError, ProcessError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import SourceSpec, StreamSpec

TOPIC = KafkaSource(connection="events", topic="events")


def stream(source: SourceSpec = TOPIC) -> StreamSpec:
    return StreamSpec(name="a", job="/p/a.py", checkpoint="/c", source=source)


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """As if `streamwarden prepare --kafka` had fetched two jars; their list as Spark takes it."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = maven._folder(maven.POMS / "kafka.xml")
    folder.mkdir(parents=True)
    jars = [folder / "a.jar", folder / "b.jar"]
    for jar in jars:
        jar.touch()
    return ",".join(map(str, jars))


def test_a_stream_on_a_topic_gets_them(fetched: str) -> None:
    assert with_connector(stream(), {"spark.x": "1"}, NEWEST) == {"spark.x": "1", "spark.jars": fetched}


def test_so_does_one_that_writes_to_a_topic(fetched: str) -> None:
    sink = KafkaSink(connection="events", topic="counts", key=("k",))
    spec = StreamSpec(name="a", job="/p/a.py", checkpoint="/c", source=FilesSource(path="/in"), sink=sink)
    assert with_connector(spec, {}, NEWEST) == {"spark.jars": fetched}


def test_other_jars_of_the_stream_stay_beside_them(fetched: str) -> None:
    """A state store provider of one's own, say."""
    assert with_connector(stream(), {"spark.jars": "/mine.jar"}, NEWEST) == {"spark.jars": f"/mine.jar,{fetched}"}


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.jars": "/opt/spark-sql-kafka-0-10_2.13-4.3.0.jar,/opt/more.jar"},
        {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"},
    ],
)
def test_a_connector_that_the_stream_names_is_the_only_one(fetched: str, conf: dict[str, str]) -> None:
    assert with_connector(stream(), conf, NEWEST) == conf


def test_a_stream_on_files_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert with_connector(stream(FilesSource(path="/in")), {}, NEWEST) == {}


def test_the_fork_of_a_script_gets_those_of_its_stream_and_its_twin_too(fetched: str, tmp_path: Path) -> None:
    """A fork declares no source: its driver redirects what the script names."""
    job = tmp_path / "job.py"
    job.write_text("spark.readStream.format('kafka').load().writeStream.format('parquet').start('out')\n")
    forked = forked_spec(replace(stream(), job=str(job)), Places.under("/fork"))
    twin = forked_spec(forked, Places.under("/twin"))
    assert forked.source == twin.source == SourceSpec()
    assert with_connector(forked, {}, NEWEST) == with_connector(twin, {}, NEWEST) == {"spark.jars": fetched}


def test_missing_jars_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(ProcessError, match="streamwarden prepare --kafka"):
        with_connector(stream(), {"spark.jars": "/mine.jar"}, NEWEST)


def test_a_stream_on_an_older_spark_gets_the_jars_for_that_one(fetched: str) -> None:
    of_a_team = replace(stream(), spark=SparkSpec(python="/opt/envs/spark35/bin/python"))
    with pytest.raises(ProcessError, match="prepare --kafka --python /opt/envs/spark35/bin/python"):
        with_connector(of_a_team, {}, (3, 5))
    folder = maven._folder(maven.POMS / "kafka.xml", "3.5")
    folder.mkdir()
    (folder / "older.jar").touch()
    assert with_connector(of_a_team, {}, (3, 5)) == {"spark.jars": str(folder / "older.jar")}
    assert with_connector(of_a_team, {}, NEWEST) == {"spark.jars": fetched}


def test_a_spark_that_a_connector_has_no_jars_for_is_refused() -> None:
    delta = connectors()["delta"]
    assert (delta.usual, delta.sparks) == ((4, 2), "4.2")
    with pytest.raises(ConfigError, match=r"no jars of Delta Lake for Spark 3\.5"):
        with_connector(replace(stream(FilesSource(path="/in")), sink=DeltaSink(path="/out")), {}, (3, 5))


def test_a_connector_brings_its_settings_and_those_of_the_stream_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = maven._folder(maven.POMS / "delta.xml")
    folder.mkdir(parents=True)
    (folder / "delta.jar").touch()
    spec = replace(stream(FilesSource(path="/in")), sink=DeltaSink(path="/out"))
    conf = with_connector(spec, {"spark.databricks.delta.snapshotPartitions": "9"}, (4, 2))
    assert conf == {
        "spark.jars": str(folder / "delta.jar"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "9",
    }


@pytest.fixture
def both(fetched: str) -> tuple[str, str]:
    """As if both `prepare --kafka` and `prepare --s3` had been run."""
    folder = maven._folder(maven.POMS / "s3.xml")
    folder.mkdir(parents=True)
    (folder / "hadoop-aws.jar").touch()
    return fetched, str(folder / "hadoop-aws.jar")


def test_a_stream_in_an_object_store_gets_its_own(both: tuple[str, str]) -> None:
    kafka, s3 = both
    sink = ParquetSink(path="s3a://bucket/o")
    spec = StreamSpec(name="a", job="/p/a.py", checkpoint="/c", source=FilesSource(path="/in"), sink=sink)
    assert with_connector(spec, {}, NEWEST) == {"spark.jars": s3}
    assert with_connector(replace(spec, source=TOPIC), {}, NEWEST) == {"spark.jars": f"{kafka},{s3}"}
    own = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}
    assert with_connector(spec, own, NEWEST) == own


def test_object_store_without_its_jars_is_reported(fetched: str) -> None:
    with pytest.raises(ProcessError, match="streamwarden prepare --s3"):
        with_connector(StreamSpec(name="a", job="/p/a.py", checkpoint="s3a://bucket/c"), {}, NEWEST)


def test_each_connector_that_a_kind_names_is_a_pom_and_each_pom_of_one_says_what_it_is_for() -> None:
    kinds = (*sources.KINDS.values(), *sinks.KINDS.values())
    assert {kind.CONNECTOR for kind in kinds if kind.CONNECTOR} | {"s3"} == set(connectors())
    assert all(connector.what and connector.use and connector.artifact for connector in connectors().values())
