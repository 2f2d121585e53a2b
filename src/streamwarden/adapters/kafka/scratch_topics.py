"""Topics of a fork's own, made and deleted. Their names begin like no other's: none but these is ever touched."""

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
"""Of a fork's topic: it goes with the drill, and nothing in it goes before."""


@contextmanager
def administered(known: Connection, topic: str) -> Iterator[AdminClient]:
    """A client for what is done to `topic`; what the broker refuses is a CheckpointError.

    Raises CheckpointError also if the topic is none of a fork's.
    """
    from concurrent.futures import TimeoutError as TooLate

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    if not topic.startswith(SCHEMA):
        raise CheckpointError(
            f"{topic} is not a topic of a fork",
            expected=f"{SCHEMA}…",
            where=where(known, topic),
            next_step="nothing was done to it; a drill makes, changes and deletes topics of its own alone",
        )
    settings: dict[str, Any] = {**client_settings(known), "logger": QUIET}
    try:
        yield AdminClient(settings)
    except (KafkaException, TooLate) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else f"no answer in {ANSWER_WITHIN:g} s"
        raise CheckpointError(
            f"the fork's topic cannot be had: {said}",
            expected="a user that may create, change and delete topics",
            where=where(known, topic),
            next_step=f"grant it for topics whose names begin with {SCHEMA}, or see that the broker runs",
        ) from error


def create(known: Connection, name: str, partitions: int, **config: str) -> None:
    """Make the topic; returns when every partition of it can be written. Raises CheckpointError."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # it does export it

    with administered(known, name) as admin:
        new = NewTopic(name, partitions, config={**KEPT, **config})
        admin.create_topics([new])[name].result(timeout=ANSWER_WITHIN)
        _await_partitions(known, name, partitions)


def extend(known: Connection, name: str, partitions: int) -> None:
    """Give the topic so many partitions in all; one that has them stays as it is. Raises CheckpointError."""
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # it does export it

    with administered(known, name) as admin:
        there = admin.list_topics(name, timeout=ANSWER_WITHIN).topics[name].partitions
        if len(there) < partitions:
            admin.create_partitions([NewPartitions(name, partitions)])[name].result(timeout=ANSWER_WITHIN)
        _await_partitions(known, name, partitions)


def delete(known: Connection, name: str) -> bool:
    """Delete the topic, and see that it is gone; False: it was not there. Raises CheckpointError."""
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
                raise _slow(known, name, "it is still there after it was deleted")
            time.sleep(0.05)
    return True


def where(known: Connection, topic: str) -> str:
    """The topic, for a message."""
    return f"topic {topic} (connection {known.name})"


def _await_partitions(known: Connection, name: str, partitions: int) -> None:
    """A partition is announced before its leader serves it: wait until each tells its offsets."""
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
        f"the broker does not come to an end with the fork's topic: {observed}",
        expected=f"that within {ANSWER_WITHIN:g} s",
        where=where(known, name),
        next_step="see that every broker of the cluster runs, then run the drill again",
    )
