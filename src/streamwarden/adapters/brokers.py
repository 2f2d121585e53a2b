"""A connection to a Kafka broker, in the words of its two clients: Spark's (Java) and ours (librdkafka).

The connection is Airflow's: `extra` holds librdkafka's settings (`bootstrap.servers`, `security.protocol`,
`sasl.mechanism`, `sasl.username`, …), as for Airflow's own Kafka provider. Host, login and password of the connection
stand in for those of them that are not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.connections import Connection
from streamwarden.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_SAME: Final = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "client.id",
    "ssl.endpoint.identification.algorithm",
)
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_TRANSLATED: Final = frozenset({*_SAME, *_PEM, "sasl.username", "sasl.password", "ssl.key.password"})


class _Quiet:
    def log(self, *_: Any) -> None:
        """Say nothing."""


QUIET: Final = _Quiet()
"""The `logger` of a librdkafka client: its lines may name hosts and users, and what matters comes as errors."""


def reader(known: Connection, purpose: str, **more: Any) -> Consumer:
    """A client that reads and leaves no trace: nothing is ever committed under the group that its library asks for.

    Args:
        purpose: names that group.
        more: further settings of librdkafka.

    Raises ConfigError for a connection that names no broker.
    """
    from confluent_kafka import Consumer

    own = {"group.id": f"streamwarden-{purpose}", "enable.auto.commit": False, "logger": QUIET}
    return Consumer({**client_settings(known), **own, **more})


def headers(message: Message) -> dict[str, bytes]:
    """A record's headers that have a value; of several of one name the last."""
    found: Any = message.headers() or []
    return {name: value for name, value in found if value is not None}


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
    certificate's file that cannot be read.
    """
    settings = client_settings(known)
    unknown = sorted(set(settings) - _TRANSLATED)
    if unknown:
        raise ConfigError(
            f"settings of the connection {known.name!r} that Spark's Kafka client has no counterpart of: "
            + ", ".join(unknown),
            expected=f"some of {', '.join(sorted(_TRANSLATED))}",
            where=f"connection {known.name}",
            next_step="leave them out of the connection; settings of one stream's reader go into its source.options",
        )
    options: dict[str, str] = {key: settings[key] for key in _SAME if key in settings}
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
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{key} cannot be read: {error}",
            expected="a PEM file",
            where=f"connection {known.name}",
            next_step="correct the path, or the file's permissions",
        ) from error
