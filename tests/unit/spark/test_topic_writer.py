"""What a stream that writes to a topic is told before its query starts, without a JVM and without a broker."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StructType

from streamwarden.errors import ConfigError, JobError
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.kafka.writer import TopicWriter
from streamwarden.stream.spec import StreamSpec

SINK = KafkaSink(connection="events", topic="counts", key=("window", "user"))


def opened(*names: str) -> None:
    schema = StructType()
    for name in names:
        schema = schema.add(name, IntegerType())
    TopicWriter(StreamSpec(name="a", job="a.py", checkpoint="/c", sink=SINK)).open(schema)


def test_missing_key_column_is_reported() -> None:
    with pytest.raises(JobError, match="the rows have no column user") as told:
        opened("window", "n")
    assert "the job gives window, n" in told.value.next_step


def test_two_columns_of_one_name_make_no_json_object() -> None:
    with pytest.raises(JobError, match="two columns have one name"):
        opened("window", "user", "n", "n")


def test_unknown_connection_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_EVENTS", raising=False)
    with pytest.raises(ConfigError, match="the connection 'events' is not known here"):
        opened("window", "user", "n")
