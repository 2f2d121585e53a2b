"""What a stream on a cluster is submitted with, held against the names that the installed Spark itself declares.

The names are read from Spark's jars. Whether a cluster of that kind does what they say is not seen here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.lifecycle.submission import cluster_conf, driver_properties, spark_conf, submit_command
from streamwarden.stream.spark import DeployMode, ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec
from support.spark.names import knows, options, settings

EXECUTORS = ExecutorsSpec(instances=3, cores=2, memory=4 * 2**30, memory_overhead=512 * 2**20)
KERBEROS = {"principal": "streams@EXAMPLE", "keytab": "/etc/streams.keytab"}
SHIPPED = {"py_files": ("/p/lib.zip", "/p/more.py"), "archives": ("/p/env.tar.gz#environment",)}
YARN = SparkSpec(master="yarn", executors=EXECUTORS, queue="etl", **KERBEROS, **SHIPPED)  # type: ignore[arg-type]
KUBERNETES = SparkSpec(
    master="k8s://https://api:6443",
    deploy_mode=DeployMode.CLUSTER,
    executors=EXECUTORS,
    namespace="streams",
    image="registry/streamwarden:1",
    service_account="spark",
)
STANDALONE = SparkSpec(master="spark://m:7077", executors=EXECUTORS)


def stream(spark: SparkSpec) -> StreamSpec:
    return StreamSpec(name="counts", job="/p/jobs/counts.py", checkpoint="/d/cp", spark=spark)


def test_yarn_gets_queue_executors_kerberos_and_files_to_ship() -> None:
    assert cluster_conf(YARN) == {
        "spark.executor.instances": "3",
        "spark.executor.cores": "2",
        "spark.executor.memory": "4096m",
        "spark.executor.memoryOverhead": "512m",
        "spark.yarn.queue": "etl",
        "spark.kerberos.principal": "streams@EXAMPLE",
        "spark.kerberos.keytab": "/etc/streams.keytab",
        "spark.submit.pyFiles": "/p/lib.zip,/p/more.py",
        "spark.archives": "/p/env.tar.gz#environment",
    }


def test_kubernetes_gets_namespace_image_and_account() -> None:
    told = cluster_conf(KUBERNETES)
    assert told["spark.kubernetes.namespace"] == "streams"
    assert told["spark.kubernetes.container.image"] == "registry/streamwarden:1"
    assert told["spark.kubernetes.authenticate.driver.serviceAccountName"] == "spark"
    assert told["spark.kubernetes.authenticate.executor.serviceAccountName"] == "spark"
    assert spark_conf(stream(KUBERNETES))["spark.submit.deployMode"] == "cluster"


def test_a_standalone_master_hands_out_cores_not_executors() -> None:
    told = cluster_conf(STANDALONE)
    assert told["spark.cores.max"] == "6"
    assert "spark.executor.instances" not in told


def test_undeclared_settings_are_left_to_spark() -> None:
    assert cluster_conf(SparkSpec(master="yarn")) == {}


def test_the_conf_of_the_file_wins_over_its_keys() -> None:
    conf = spark_conf(stream(replace(YARN, conf={"spark.yarn.queue": "urgent"})))
    assert conf["spark.yarn.queue"] == "urgent"


@pytest.mark.parametrize("spark", [SparkSpec(), STANDALONE, YARN, KUBERNETES], ids=lambda spark: spark.master)
@pytest.mark.parametrize("backend", list(Backend))
def test_spark_knows_every_setting_of_a_driver(spark: SparkSpec, backend: Backend) -> None:
    spec = replace(stream(spark), state=StateSpec(backend=backend))
    conf = driver_properties(spec, Path("/d/f"), python="/venv/bin/python")
    assert [key for key in conf if not knows(key)] == []


@pytest.mark.parametrize(
    "setting", ["spark.yarn.que", "spark.kubernetes.image", "spark.kubernetes.authenticate.driver.account", "spark.x"]
)
def test_a_setting_that_spark_does_not_declare_is_noticed(setting: str) -> None:
    """The control: the test above could fail."""
    assert not knows(setting)


def test_spark_knows_every_option_of_the_command() -> None:
    """Those of ours; Airflow's hook builds others, which the tests of its operator look at."""
    command = submit_command(stream(YARN), Path("/d/f"), runner=Path("/r/runner.py"), spark_submit="/s/spark-submit")
    given = [part for part in command if part.startswith("--")]
    assert given == ["--properties-file"]
    assert set(given) <= options()
    assert {"--queue", "--principal", "--keytab", "--py-files", "--archives", "--deploy-mode"} <= options()
    assert "--image" not in options()
    assert len(settings()) > 1000


def test_a_keytab_is_named_in_the_properties_and_not_in_the_arguments() -> None:
    command = submit_command(stream(YARN), Path("/d/f"), runner=Path("/r/runner.py"), spark_submit="/s/spark-submit")
    assert "keytab" not in " ".join(command)


def test_a_driver_in_the_cluster_is_given_no_folder_of_the_launching_host() -> None:
    """Neither its temporary files nor its JVM's class archive are where the launcher's are."""
    conf = driver_properties(stream(KUBERNETES), Path("/d/f"), python="python3", jvm_flags=["-XX:SharedArchiveFile=x"])
    assert not [value for value in conf.values() if "/d/f" in value or "SharedArchiveFile" in value]
    assert "-XX:+ExitOnOutOfMemoryError" in conf["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("own", [None, "iban|birthday"], ids=["Spark's words", "with the stream's own"])
def test_what_sparks_ui_hides_of_a_driver_in_the_cluster(own: str | None) -> None:
    """Its environment, which holds passwords, is among the settings that the UI shows; the file's words add to that."""
    spark = replace(KUBERNETES, conf={"spark.redaction.regex": own} if own else {})
    hidden = re.compile(driver_properties(stream(spark), Path("/d/f"), python="python3")["spark.redaction.regex"])
    for key in ("spark.kubernetes.driverEnv.X", "spark.yarn.appMasterEnv.X", "spark.my.PassWord", "spark.access.key"):
        assert hidden.search(key)
    assert bool(hidden.search("spark.my.iban")) is (own is not None)
    assert not hidden.search("spark.sql.shuffle.partitions")


def test_the_ui_of_a_pod_has_a_port_that_a_pod_may_announce() -> None:
    """Kubernetes refuses a pod that announces the port 0; a driver that shares its host needs a free one."""
    assert "spark.ui.port" not in spark_conf(stream(replace(KUBERNETES, deploy_mode=DeployMode.CLUSTER)))
    assert spark_conf(stream(replace(KUBERNETES, deploy_mode=DeployMode.CLIENT)))["spark.ui.port"] == "0"
    assert spark_conf(stream(replace(YARN, deploy_mode=DeployMode.CLUSTER)))["spark.ui.port"] == "0"


def test_executors_of_every_cluster_can_be_seen() -> None:
    """The REST API is a part of the UI: on any free port, and it ends nothing."""
    for spark in (STANDALONE, YARN, replace(KUBERNETES, deploy_mode=DeployMode.CLIENT)):
        conf = spark_conf(stream(spark))
        assert (conf["spark.ui.enabled"], conf["spark.ui.port"], conf["spark.ui.killEnabled"]) == ("true", "0", "false")
        assert conf["spark.executor.processTreeMetrics.enabled"] == "true"
    assert spark_conf(stream(SparkSpec()))["spark.ui.enabled"] == "false"
