"""The declarations of the cluster managers agree with Spark, with the stream's file and with the causes of failures."""

from __future__ import annotations

from dataclasses import fields

import pytest

from streamwarden.clusters import MANAGERS, UNKNOWN, ClusterManager, manager_of
from streamwarden.clusters.local import threads
from streamwarden.lifecycle.failures.causes import CAUSES
from streamwarden.stream.spark import SparkSpec
from support.spark.names import knows

EVERY = pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.title)


@pytest.mark.parametrize(
    ("master", "title"),
    [
        ("local", "the driver"),
        ("local[*]", "the driver"),
        ("local[4, 2]", "the driver"),
        ("local-cluster[1,1,1024]", "the driver"),
        ("spark://a:7077,b:7077", "a standalone cluster"),
        ("yarn", "YARN"),
        ("k8s://https://api:6443", "Kubernetes"),
    ],
)
def test_a_master_names_its_manager(master: str, title: str) -> None:
    assert manager_of(master).title == title


@pytest.mark.parametrize("master", ["", "mesos://m:5050", "yarn-client", "locally", "spark://", "local[]"])
def test_a_master_that_spark_does_not_know_has_no_manager(master: str) -> None:
    assert manager_of(master) is UNKNOWN


@EVERY
def test_the_master_that_messages_show_is_one_of_the_manager(manager: ClusterManager) -> None:
    assert manager_of(manager.shown) is manager


@EVERY
def test_a_manager_runs_drivers_or_says_why_it_does_not(manager: ClusterManager) -> None:
    assert (manager.in_cluster is None) == bool(manager.client_only)


@EVERY
def test_keys_are_in_the_streams_file_and_become_settings_of_spark(manager: ClusterManager) -> None:
    assert manager.keys.keys() <= {field.name for field in fields(SparkSpec)}
    assert [name for names in manager.keys.values() for name in names if not knows(name)] == []
    assert [name for name in manager.conf if not knows(name)] == []


def test_an_unavailable_server_is_a_known_cause() -> None:
    assert {manager.server.away for manager in MANAGERS if manager.server} <= {cause.code for cause in CAUSES}


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", 1), ("local[4]", 4), ("local[4,2]", 4), ("local[4, 2]", 4), ("local[*]", None), ("yarn", None)],
)
def test_a_local_master_says_how_many_tasks_run_at_a_time(master: str, expected: int | None) -> None:
    assert threads(master) == expected
