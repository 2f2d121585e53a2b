"""Programs beside a stream run on this host, whatever addresses its driver has in its cluster."""

from dataclasses import replace

import pytest

from streamwarden.lifecycle.submission import spark_conf
from streamwarden.services.fleet.launching.one_off_spark import here
from support.streams.lint import spec

ADDRESSES = {
    "spark.driver.host": "scheduler",
    "spark.driver.bindAddress": "0.0.0.0",  # what a container's file says; nothing binds to it here
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.blockManager.port": "7080",
}


@pytest.mark.parametrize("master", ["spark://spark-master:7077", "yarn", "k8s://https://cluster:6443"])
def test_addresses_in_the_cluster_are_not_those_of_a_program_on_this_host(master: str) -> None:
    stream = spec(conf={**ADDRESSES, "spark.sql.ansi.enabled": "false"})
    stream = replace(stream, spark=replace(stream.spark, master=master))
    conf = spark_conf(here(stream))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert not {key for key in conf if key.endswith(".port")} & ADDRESSES.keys()
    assert conf["spark.sql.ansi.enabled"] == "false", "settings that are no addresses stay"
