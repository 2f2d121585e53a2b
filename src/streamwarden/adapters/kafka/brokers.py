"""A connection to a Kafka broker as settings of its two clients: Spark's (Java) and ours (librdkafka).

The connection is Airflow's: `extra` holds librdkafka's settings (`bootstrap.servers`, `security.protocol`,
`sasl.mechanism`, `sasl.username`, …), as for Airflow's own Kafka provider. Where `extra` lacks one of these, the
connection's host, login and password are used.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.addresses import refusal
from streamwarden.adapters.connections import Connection
from streamwarden.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_SAME: Final = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "client.id")
_PORT: Final = 9092
"""Where a broker listens if its address names no port."""
_CONNECTS_WITHIN: Final = 1.0
"""Seconds until a connection that is neither taken nor refused is left to the client."""
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_KEY: Final = "ssl.key.location"
_PKCS8: Final = ("BEGIN PRIVATE KEY", "BEGIN ENCRYPTED PRIVATE KEY")
"""The first line of a key that Java reads; librdkafka reads older forms too (`BEGIN RSA PRIVATE KEY`)."""
_PEM: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    _KEY: "ssl.keystore.key",
}
_TRANSLATED: Final = frozenset({*_SAME, *_PEM, _IDENTIFICATION, "sasl.username", "sasl.password", "ssl.key.password"})


class _Quiet:
    def log(self, *_: Any) -> None:
        """Write nothing."""


QUIET: Final = _Quiet()
"""The `logger` of a librdkafka client: its lines may name hosts and users, and what matters comes as errors."""


def reader(known: Connection, purpose: str, **more: Any) -> Consumer:
    """A client that only reads: it commits no offsets under the consumer group that its library requires.

    Args:
        purpose: names that group.
        more: further settings of librdkafka.

    Raises ConfigError for a connection that names no broker, or has a setting that the library refuses.
    """
    from confluent_kafka import Consumer, KafkaException

    own = {"group.id": f"streamwarden-{purpose}", "enable.auto.commit": False, "logger": QUIET}
    try:
        return Consumer({**client_settings(known), **own, **more})
    except KafkaException as error:
        raise ConfigError(
            f"the settings of the connection {known.name!r} are refused: {error.args[0].str()}",
            expected="settings of librdkafka, and certificates in PEM files that this process can read",
            where=f"connection {known.name}",
            next_step="correct the connection",
        ) from error


def unreachable(known: Connection) -> str | None:
    """Why no broker of the connection can answer now; None: one may answer. It costs no waiting, where a request of
    librdkafka to a broker that is down lasts as long as it may. Raises ConfigError for a connection that names no
    broker."""
    servers = client_settings(known)["bootstrap.servers"]
    plain = ",".join(server.strip().rpartition("://")[2] for server in servers.split(","))
    return refusal(plain, _PORT, within=_CONNECTS_WITHIN)


def kept_offsets(consumer: Consumer, topic: str, partition: int, *, deadline: float) -> tuple[int, int]:
    """The oldest offset that the partition keeps, and the one behind its newest.

    A partition between two leaders (an election, or a topic that was just created) is asked until `deadline`, a time of
    `time.monotonic`. Raises KafkaException.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    place = TopicPartition(topic, partition)
    between = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    while True:
        left = deadline - time.monotonic()
        try:
            return consumer.get_watermark_offsets(place, timeout=max(0.1, left))
        except KafkaException as error:
            if error.args[0].code() not in between or left <= 0:
                raise
        time.sleep(0.05)


def topic_id(known: Connection, topic: str, *, within: float) -> str | None:
    """The id that the cluster gave the topic when it was created. A topic that is deleted and recreated has another id.

    None: there is no such topic, or the brokers are older than topic ids (Kafka 2.8), or did not answer within `within`
    seconds.
    Raises ConfigError for a connection that names no broker.
    """
    from concurrent.futures import TimeoutError as TooLate

    from confluent_kafka import KafkaException, TopicCollection, Uuid
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {**client_settings(known), "logger": QUIET}
    client = AdminClient(settings)  # must live until the answer has come
    try:
        asked = client.describe_topics(TopicCollection([topic]), request_timeout=within)
        identity = str(asked[topic].result(timeout=within).topic_id)
    except (KafkaException, TooLate):
        return None
    return None if identity == str(Uuid(0, 0)) else identity


def headers(message: Message) -> dict[str, bytes]:
    """A record's headers that have a value; of several with one name, the last."""
    pairs: Any = message.headers() or []
    return {name: value for name, value in pairs if value is not None}


def client_settings(known: Connection) -> dict[str, str]:
    """The settings of librdkafka. Raises ConfigError for a connection that names no broker."""
    settings = {str(key): str(value) for key, value in known.extra.items()}
    if "sasl.mechanisms" in settings:  # librdkafka takes both spellings
        settings.setdefault("sasl.mechanism", settings.pop("sasl.mechanisms"))
    if known.host and "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = known.host if known.port is None else f"{known.host}:{known.port}"
    if "bootstrap.servers" not in settings:
        raise ConfigError(
            f"the connection {known.name!r} names no broker",
            expected="`bootstrap.servers` in its extra, or a host",
            where=f"connection {known.name}",
            next_step="add it to the connection",
        )
    if known.login and known.password and "sasl.username" not in settings:
        settings |= {"sasl.username": known.login, "sasl.password": known.password}
        settings.setdefault("sasl.mechanism", "PLAIN")
        settings.setdefault("security.protocol", "SASL_SSL")  # a password does not cross a network in clear by default
    return settings


def java_options(known: Connection) -> dict[str, str]:
    """The options of Spark's connector (`kafka.…`) for the same access.

    Raises ConfigError for a setting that has no counterpart there, a mechanism without a login module, or a
    certificate's or key's file that cannot be read.
    """
    settings = client_settings(known)
    unknown = sorted(set(settings) - _TRANSLATED)
    if unknown:
        raise ConfigError(
            f"settings of the connection {known.name!r} without a counterpart in Spark's Kafka client: "
            + ", ".join(unknown),
            expected=f"some of {', '.join(sorted(_TRANSLATED))}",
            where=f"connection {known.name}",
            next_step="leave them out of the connection; settings of one stream's reader go into its source.options",
        )
    options: dict[str, str] = {key: settings[key] for key in _SAME if key in settings}
    if _IDENTIFICATION in settings:  # Java writes `none` as an empty text
        options[_IDENTIFICATION] = settings[_IDENTIFICATION].replace("none", "")
    if "sasl.username" in settings:
        options["sasl.jaas.config"] = _login(known, settings)
    for ours, theirs in _PEM.items():
        if ours in settings:
            options[theirs] = _pem(known, ours, settings[ours])
            options["ssl.truststore.type" if "truststore" in theirs else "ssl.keystore.type"] = "PEM"
    if "ssl.key.password" in settings:
        options["ssl.key.password"] = settings["ssl.key.password"]
    return {f"kafka.{key}": value for key, value in options.items()}


def _login(known: Connection, settings: dict[str, str]) -> str:
    mechanism = settings.get("sasl.mechanism", "PLAIN")
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConfigError(
            f"sasl.mechanism is {mechanism!r}",
            expected=f"one of {', '.join(_LOGIN_MODULES)}",
            where=f"connection {known.name}",
            next_step="use one of these, or set kafka.sasl.jaas.config in the stream's source.options",
        )
    user, password = (_quoted(settings.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return f"{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pem(known: Connection, key: str, path: str) -> str:
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{key} cannot be read: {error}",
            expected="a PEM file",
            where=f"connection {known.name}",
            next_step="correct the path, or the file's permissions",
        ) from error
    if key == _KEY and not any(head in text for head in _PKCS8):
        raise ConfigError(
            f"{key} does not hold a key that Java can read",
            expected="a key in PKCS #8 (`BEGIN PRIVATE KEY`, or `BEGIN ENCRYPTED PRIVATE KEY` with ssl.key.password)",
            where=f"connection {known.name}",
            next_step=f"openssl pkcs8 -topk8 -in {path} -out NEW.key -nocrypt, and name that file",
        )
    return text
