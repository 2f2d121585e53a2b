"""One connection, two clients: librdkafka's settings and those of Spark's connector."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.connections import Connection
from streamwarden.adapters.kafka.brokers import client_settings, java_options, reader, unreachable
from streamwarden.errors import ConfigError


def test_a_host_and_a_port_are_enough() -> None:
    known = Connection(name="events", host="broker", port=9092)
    assert client_settings(known) == {"bootstrap.servers": "broker:9092"}
    assert java_options(known) == {"kafka.bootstrap.servers": "broker:9092"}


def test_extra_wins_over_the_host() -> None:
    known = Connection(name="events", host="broker", extra={"bootstrap.servers": "one:9092,two:9092"})
    assert client_settings(known) == {"bootstrap.servers": "one:9092,two:9092"}


def test_a_login_is_for_both_and_does_not_cross_the_network_in_clear() -> None:
    known = Connection(name="events", host="broker:9093", login="ann", password='p"\\w')
    assert client_settings(known) == {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": 'p"\\w',
    }
    options = java_options(known)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        r'username="ann" password="p\"\\w";'
    )


def test_both_spellings_of_the_mechanism() -> None:
    extra = {"bootstrap.servers": "b", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "a", "sasl.password": "p"}
    options = java_options(Connection(name="events", extra=extra))
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert "scram.ScramLoginModule" in options["kafka.sasl.jaas.config"]


def test_certificates_travel_by_content(tmp_path: Path) -> None:
    """Executors on other hosts have no such file."""
    for name in ("ca", "cert"):
        (tmp_path / name).write_text(f"-----{name}-----")
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
    extra = {
        "bootstrap.servers": "b",
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
    }
    options = java_options(Connection(name="events", extra=extra))
    assert options["kafka.ssl.truststore.type"] == options["kafka.ssl.keystore.type"] == "PEM"
    assert options["kafka.ssl.truststore.certificates"] == "-----ca-----"
    assert options["kafka.ssl.keystore.certificate.chain"] == "-----cert-----"
    assert options["kafka.ssl.keystore.key"] == "-----BEGIN PRIVATE KEY-----"


def test_who_the_broker_is_need_not_be_proved() -> None:
    extra = {"bootstrap.servers": "b", "ssl.endpoint.identification.algorithm": "none"}
    assert java_options(Connection(name="events", extra=extra))["kafka.ssl.endpoint.identification.algorithm"] == ""
    extra["ssl.endpoint.identification.algorithm"] = "https"
    options = java_options(Connection(name="events", extra=extra))
    assert options["kafka.ssl.endpoint.identification.algorithm"] == "https"


def test_key_in_a_form_that_only_librdkafka_reads_is_reported(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN RSA PRIVATE KEY-----\nhush")
    known = Connection(name="events", extra={"bootstrap.servers": "b", "ssl.key.location": str(tmp_path / "key")})
    with pytest.raises(ConfigError, match=r"does not hold a key that Java can read.*openssl pkcs8 -topk8") as caught:
        java_options(known)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({}, "names no broker"),
        ({"bootstrap.servers": "b", "statistics.interval.ms": 5}, "Spark's Kafka client: statistics.interval.ms"),
        ({"bootstrap.servers": "b", "sasl.username": "hush", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'"),
        ({"bootstrap.servers": "b", "ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location cannot be read"),
    ],
)
def test_impossible_settings_are_reported(extra: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        java_options(Connection(name="events", extra=extra))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location failed"),
        ({"security.protocol": "SLL"}, "Invalid value"),
        ({"bootstrap.server": "b"}, "No such configuration property"),
    ],
)
def test_what_the_library_refuses_is_an_error_of_the_connection(extra: dict[str, object], told: str) -> None:
    """And not one that ends the health of all other streams."""
    known = Connection(name="events", host="b", extra={**extra, "sasl.password": "hush"})
    with pytest.raises(ConfigError, match=told) as caught:
        reader(known, "test")
    assert "hush" not in str(caught.value)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture
def closed() -> Iterator[int]:
    """A port on which nothing listens, and nothing can for the time being."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def _at(*servers: str) -> Connection:
    return Connection(name="events", extra={"bootstrap.servers": ",".join(servers)})


def test_brokers_that_refuse_a_connection_are_known_to_be_down_without_a_request(closed: int) -> None:
    at = f"127.0.0.1:{closed}"
    assert unreachable(_at(at)) == f"{at}: Connection refused"
    assert unreachable(_at(f"PLAINTEXT://{at}", f" {at}")) == f"{at}: Connection refused"


def test_one_broker_that_takes_connections_is_enough(closed: int, listening: int) -> None:
    assert unreachable(_at(f"127.0.0.1:{listening}")) is None
    assert unreachable(_at(f"127.0.0.1:{closed}", f"127.0.0.1:{listening}")) is None


def test_unresolvable_host_is_left_to_the_client(closed: int) -> None:
    """Its error says more, and names may resolve differently there."""
    assert unreachable(_at("no-such-host.invalid:9092", f"127.0.0.1:{closed}")) is None
