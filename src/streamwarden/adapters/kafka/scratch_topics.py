"""Creates and deletes the topics of forks. Their names share a prefix, and no other topic is ever changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.connections import Connection
from streamwarden.adapters.kafka.brokers import QUIET, client_settings, reader
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import SCHEMA

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ANSWER_WITHIN: Final = 10.0
"""Seconds for an answer of the broker."""

KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a fork's topic: nothing in it is removed before the drill deletes the topic."""


@contextmanager
def administered(known: Connection, topic: str) -> Iterator[AdminClient]:
    """A client that changes `topic`; a refusal of the broker is raised as a CheckpointError.

    Raises CheckpointError also if the topic is not a fork's.
    """
    from concurrent.futures import TimeoutError as TooLate

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    if not topic.startswith(SCHEMA):
        raise CheckpointError(
            f"{topic} is not a topic of a fork",
            expected=f"{SCHEMA}…",
            where=where(known, topic),
            next_step="nothing was changed; a drill creates, changes and deletes only the topics of its forks",
        )
    settings: dict[str, Any] = {**client_settings(known), "logger": QUIET}
    try:
        yield AdminClient(settings)
    except (KafkaException, TooLate) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else f"no answer in {ANSWER_WITHIN:g} s"
        raise CheckpointError(
            f"the broker refuses to create, change or delete the fork's topic: {said}",
            expected="a user that may create, change and delete topics",
            where=where(known, topic),
            next_step=f"grant it for topics whose names begin with {SCHEMA}, or see that the broker runs",
        ) from error


def create(known: Connection, name: str, partitions: int, **config: str) -> None:
    """Create the topic; returns when each of its partitions can be written. Raises CheckpointError."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # it does export it

    with administered(known, name) as admin:
        new = NewTopic(name, partitions, config={**KEPT, **config})
        admin.create_topics([new])[name].result(timeout=ANSWER_WITHIN)
        _await_partitions(known, name, partitions)


def extend(known: Connection, name: str, partitions: int) -> None:
    """Raise the topic's partitions to this number, unless it has as many. Raises CheckpointError."""
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # it does export it

    with administered(known, name) as admin:
        there = admin.list_topics(name, timeout=ANSWER_WITHIN).topics[name].partitions
        if len(there) < partitions:
            admin.create_partitions([NewPartitions(name, partitions)])[name].result(timeout=ANSWER_WITHIN)
        _await_partitions(known, name, partitions)


def delete(known: Connection, name: str) -> bool:
    """Delete the topic and wait until it is gone; False: there was no such topic. Raises CheckpointError."""
    from confluent_kafka import KafkaError, KafkaException

    with administered(known, name) as admin:
        try:
            admin.delete_topics([name])[name].result(timeout=ANSWER_WITHIN)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False
        deadline = time.monotonic() + ANSWER_WITHIN
        while name in admin.list_topics(timeout=ANSWER_WITHIN).topics:
            if time.monotonic() > deadline:
                raise _slow(known, name, "it is still listed after its deletion")
            time.sleep(0.05)
    return True


def where(known: Connection, topic: str) -> str:
    """The topic, for a message."""
    return f"topic {topic} (connection {known.name})"


def _await_partitions(known: Connection, name: str, partitions: int) -> None:
    """Wait until each partition reports its offsets: it is announced before its leader serves it."""
    from confluent_kafka import KafkaException, TopicPartition

    deadline = time.monotonic() + ANSWER_WITHIN
    client = reader(known, "copy")
    try:
        for number in range(partitions):
            while True:
                try:
                    client.get_watermark_offsets(TopicPartition(name, number), timeout=1.0)
                    break
                except KafkaException as error:
                    if time.monotonic() > deadline:
                        raise _slow(known, name, f"partition {number}: {error.args[0].str()}") from error
                time.sleep(0.05)
    finally:
        client.close()


def _slow(known: Connection, name: str, observed: str) -> CheckpointError:
    return CheckpointError(
        f"the broker does not finish the change of the fork's topic: {observed}",
        expected=f"the change within {ANSWER_WITHIN:g} s",
        where=where(known, name),
        next_step="check that every broker of the cluster runs, then run the drill again",
    )
