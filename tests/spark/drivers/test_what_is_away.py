"""A service that is away is named in the exit record, from the exceptions of Spark's own clients for it.

The standalone master is in test_standalone_cluster, a database in test_postgresql_sink_run.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.adapters.jvm import maven
from support.servers import away_services
from support.spark.drivers import quick_options

pytestmark = pytest.mark.spark

SERVICES = (
    "the NameNode of HDFS",
    "the name of a host",
    "the object store",
    "the Kafka broker",
    "the API server of Kubernetes",
    "the ResourceManager of YARN",
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jars = [str(jar) for pom in (maven.POMS / "kafka.xml", maven.POMS / "s3.xml") for jar in maven.resolve(pom)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", quick_options())
        return away_services.run(tmp_path_factory.mktemp("away"), jars)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_that_is_away_is_named_and_the_stream_started_again(service: str, records: dict[str, Any]) -> None:
    record = records[service]
    assert record is not None, "nothing was raised"
    assert record["message"].startswith(service), record
    assert record["curable"], record
    assert "the stream then continues where it stopped" in record["next_step"]
