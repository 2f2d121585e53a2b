"""The same cause gets the same decision under every kind of sink, from exceptions of a real Spark, broker and database.

Files, a topic and a table as Streamwarden writes them; a function of foreachBatch, memory and noop as a script does.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.jvm import maven
from streamwarden.lifecycle.failures.causes import LOST_INPUT, RESTORE
from support.servers.kafka_broker import Broker
from support.servers.postgres_server import PostgreSQL
from support.spark import sink_failures
from support.spark.drivers import quick_options

# In the first tier drivers/test_driver_failures and test_what_is_away end real drivers, by one cause each.
pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

OF_FUNCTION = {"function", "postgresql", "kafka"}
"""Sinks whose writer is a function of foreachBatch."""

INCURABLE = {
    "state lost": RESTORE,
    "offsets torn": RESTORE,
    "state changed": "the job's state no longer fits the checkpoint",
    "no record": "declare `quarantine:`",
    "retention passed": LOST_INPUT.next_step,
}


@pytest.fixture(scope="module")
def ends(kafka: Broker, postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    kafka.create("events")
    kafka.create("counts")
    postgresql.create("causes")
    environment = {
        variable("events"): kafka.connection,
        variable("warehouse"): postgresql.connection("causes"),
        "JDK_JAVA_OPTIONS": quick_options(),
    }
    jars = [str(jar) for jar in maven.jars(maven.POMS / "kafka.xml")]
    root = tmp_path_factory.mktemp("causes")
    return sink_failures.run(root, jars=jars, servers=kafka.servers, environment=environment)


@pytest.mark.parametrize("run", ["nothing", "nothing on the topic"])
def test_undamaged_each_query_comes_to_its_end(run: str, ends: dict[str, Any]) -> None:
    assert ends[run] == dict.fromkeys(sink_failures.SINKS)


@pytest.mark.parametrize("cause", INCURABLE)
def test_what_no_restart_cures_stays_down_under_every_sink(cause: str, ends: dict[str, Any]) -> None:
    for sink, record in ends[cause].items():
        assert record is not None, f"{sink} went on"
        assert not record["curable"], f"{sink}: {record}"
        assert record["next_step"].startswith(INCURABLE[cause]), f"{sink}: {record}"


@pytest.mark.parametrize("cause", ["state lost", "state changed", "no record"])
def test_the_record_names_the_same_condition_under_every_sink(cause: str, ends: dict[str, Any]) -> None:
    named = {sink: record["error_class"] for sink, record in ends[cause].items()}
    outside = {kind for sink, kind in named.items() if sink not in OF_FUNCTION}
    inside = {kind for sink, kind in named.items() if sink in OF_FUNCTION}
    assert inside <= outside, named


@pytest.mark.parametrize("cause", [*INCURABLE, "job raised"])
def test_no_message_is_that_of_a_wrapper(cause: str, ends: dict[str, Any]) -> None:
    for sink, record in ends[cause].items():
        assert "An error occurred while calling" not in record["message"], sink
        assert "Py4J" not in f"{record['error_class']}", sink


def test_what_is_not_known_is_tried_again_under_every_sink(ends: dict[str, Any]) -> None:
    """A function of the job raised: data, or something that it asked for and that may come back."""
    for sink, record in ends["job raised"].items():
        assert record["curable"], f"{sink}: {record}"
        assert "no rate for this key" in record["message"], f"{sink}: {record}"


def test_a_query_that_nothing_waited_for_is_judged_the_same(ends: dict[str, Any]) -> None:
    for sink, record in ends["state lost, unawaited"].items():
        assert (record["curable"], record["next_step"]) == (False, RESTORE), f"{sink}: {record}"
