"""A connection is read as Airflow writes it, and a broken one is told without showing what it holds."""

import json

import pytest

from streamwarden.adapters.connections import Connection, connection
from streamwarden.errors import ConfigError


def read(value: str, name: str = "warehouse") -> Connection:
    return connection(name, {"AIRFLOW_CONN_WAREHOUSE": value})


def test_a_uri() -> None:
    found = read("postgresql://ann%40home:p%2Fw@db.example:5433/flights?sslmode=require")
    assert (found.kind, found.host, found.port) == ("postgresql", "db.example", 5433)
    assert (found.login, found.password, found.schema) == ("ann@home", "p/w", "flights")
    assert found.extra == {"sslmode": "require"}


def test_a_uri_with_nested_extra() -> None:
    assert read("kafka://broker:9092/?__extra__=%7B%22a%22%3A%20%7B%22b%22%3A%201%7D%7D").extra == {"a": {"b": 1}}


def test_several_brokers_stay_together() -> None:
    found = read("kafka://one:9092,two:9093/")
    assert (found.host, found.port) == ("one:9092,two:9093", None)


@pytest.mark.parametrize("extra", [{"sslmode": "require"}, '{"sslmode": "require"}'])
def test_airflows_json(extra: object) -> None:
    body = {"conn_type": "postgres", "host": "db", "port": 5432, "login": "ann", "password": "pw", "schema": "flights"}
    found = read(json.dumps({**body, "extra": extra}))
    assert found == Connection(
        name="warehouse",
        kind="postgres",
        host="db",
        port=5432,
        login="ann",
        password="pw",
        schema="flights",
        extra={"sslmode": "require"},
    )


@pytest.mark.parametrize(
    "value",
    [
        "no-scheme-secret",
        "{not json secret",
        '{"extra": "[1]", "password": "secret"}',
        '{"port": "secret"}',
        "a://b:secret/",
    ],
)
def test_invalid_value_is_reported_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError, match="cannot be parsed") as caught:
        read(value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_unknown_connection_is_reported_with_the_ways_to_define_it() -> None:
    with pytest.raises(ConfigError, match="AIRFLOW_CONN_WAREHOUSE"):
        connection("warehouse", {})


def test_its_repr_shows_no_secret() -> None:
    assert "hidden-word" not in repr(read("kafka://ann:hidden-word@broker/?sasl.password=hidden-word"))
