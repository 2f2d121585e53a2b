"""The topic that a stream writes: whether it is there, and one like it for a fork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.connections import Connection, connection, variable
from streamwarden.adapters.kafka import scratch_topics
from streamwarden.adapters.kafka.brokers import reader
from streamwarden.errors import CheckpointError, ConfigError, SinkError, StreamwardenError
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

ANSWER_WITHIN: Final = 10.0
"""Seconds for an answer of the broker."""


def require_topic(known: Connection, topic: str, *, within: float = ANSWER_WITHIN) -> int:
    """How many partitions the topic has.

    Raises SinkError if the broker does not answer or has no such topic: a restart may find both. ConfigError if it does
    not let the connection's user in, or the connection names no broker.
    """
    from confluent_kafka import KafkaException

    said: list[KafkaError] = []
    client = reader(known, "sink", error_cb=said.append)
    try:
        metadata = client.list_topics(topic, timeout=within).topics[topic]
        error = metadata.error
    except KafkaException as refused:
        client.poll(0)  # hands out what the client heard of its connections
        error = next((reported for reported in said if _not_let_in(reported)), refused.args[0])
    finally:
        client.close()
    if error is None:
        return len(metadata.partitions)
    raise _explained(known, topic, error)


def make(origin: StreamSpec, forked: StreamSpec) -> None:
    """The fork's topic, empty, with as many partitions as the origin's. Raises CheckpointError if the broker does not
    allow it, or does not have the origin's topic."""
    known, name = _of(forked)
    try:
        partitions = require_topic(known, str(origin.sink.topic))
    except StreamwardenError as error:
        raise CheckpointError.of(error) from error
    scratch_topics.create(known, name, partitions)


def drop(forked: StreamSpec) -> str | None:
    """Delete the fork's topic; returns its name, None if it was not there.

    Raises CheckpointError if the broker does not allow it, or the topic does not belong to a fork.
    """
    known, name = _of(forked)
    return name if scratch_topics.delete(known, name) else None


def _of(forked: StreamSpec) -> tuple[Connection, str]:
    return connection(str(forked.sink.connection)), str(forked.sink.topic)


def _explained(known: Connection, topic: str, error: KafkaError) -> StreamwardenError:
    from confluent_kafka import KafkaError

    where = scratch_topics.where(known, topic)
    if _not_let_in(error):
        return ConfigError(
            f"the broker does not let this user in: {error.str()}",
            expected="a user and password (or a certificate) that it knows, with the right to write the topic",
            where=where,
            next_step=f"correct the connection {known.name!r} ({variable(known.name)}), or the user's rights",
        )
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return SinkError(
            "the topic is not there",
            expected="a topic: how many partitions and replicas it has is yours to say, so it is not made here",
            where=where,
            next_step="create it, or correct sink.topic",
        )
    return SinkError(
        f"the broker does not answer: {error.str()}",
        expected=f"an answer within {ANSWER_WITHIN:g} s",
        where=where,
        next_step="see that it runs and that the connection names its host and port; the batch is written when the "
        "stream starts again",
    )


def _not_let_in(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )
