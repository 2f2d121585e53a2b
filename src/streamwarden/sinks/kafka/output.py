"""Reads what a stream wrote into its topic, by another client than Spark: committed records, each event once.

JSON has fewer types than rows have. A value is taken for an instant, a date, bytes or a decimal where the oracle's
value of that column is one, and is left as it stands where it reads as none: then it is a wrong one.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka.brokers import headers, reader
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.logs import read_query_id
from streamwarden.errors import VerificationError
from streamwarden.sinks.output import Output
from streamwarden.sinks.output_types import json_types
from streamwarden.stream import OutputMode, StreamSpec
from streamwarden.verification.column_types import ColumnType
from streamwarden.verification.events import Delivery, Event, delivered, delivered_live
from streamwarden.verification.oracle import Expectation

SILENCE: Final = 30.0
"""Seconds without a record after which reading fails, with what the broker said last."""

_AT_ONCE: Final = 2_000
"""Records that are taken from the client at a time."""


def read_topic(
    spec: StreamSpec,
    like: Mapping[str, object],
    *,
    committed: int | None,
    first: int = 0,
    deduplicated: bool = True,
) -> Output:
    """The rows of the stream's committed batches in its topic.

    Args:
        like: column -> a value of its type; see `samples`.
        first: first batch whose rows are read.
        deduplicated: False: as a reader sees them who knows nothing of event ids.

    Raises VerificationError if the topic cannot be read, or does not keep all that was written to it.
    """
    topic = str(spec.sink.topic)
    events = read_events(connection(str(spec.sink.connection)), topic)
    if spec.trigger.real_time is not None:
        return output_of(delivered_live(events, deduplicated=deduplicated), like)
    found = delivered(
        events,
        query=read_query_id(open_path(spec.checkpoint, spec.storage.connection)) or "",
        committed=committed,
        first=first,
        update=spec.sink.mode is OutputMode.UPDATE,
        deduplicated=deduplicated,
    )
    return output_of(found, like)


def output_of(found: Delivery, like: Mapping[str, object]) -> Output:
    """The rows of a delivery; `like`: column -> a value of its type, see `samples`."""
    objects = [_object(event.value) for event in found.events]
    columns = tuple(dict.fromkeys(name for each in objects for name in each))
    return Output(
        columns=columns,
        types=_types(objects),
        rows=[tuple(typed(each.get(name), like.get(name)) for name in columns) for each in objects],
        repeated=found.repeated,
        notes={
            "repeated_records": {str(batch): count for batch, count in found.repeats.items()},
            "records_of_others": found.foreign,
            "uncommitted_records": found.uncommitted,
        },
        problems=found.problems,
    )


def _types(objects: Iterable[Mapping[str, object]]) -> dict[str, tuple[ColumnType, ...]]:
    found: dict[str, set[ColumnType]] = {}
    for each in objects:
        for name, value in each.items():
            found.setdefault(name, set()).update(json_types(value))
    return {name: tuple(sorted(kinds, key=lambda kind: kind.shown)) for name, kinds in found.items()}


def read_events(known: Connection, topic: str) -> Iterator[Event]:
    """Every committed record of the topic up to now, in the order of each partition.

    Raises VerificationError if the topic is not there, the broker does not answer, or the topic keeps no longer all.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    problems: list[str] = []
    settings = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = reader(known, "verify", error_cb=lambda error: problems.append(error.str()), **settings)
    try:
        metadata = consumer.list_topics(topic, timeout=SILENCE).topics[topic]
        if metadata.error is not None:
            raise _unread(topic, known, metadata.error.str())
        left = {}
        for number in sorted(metadata.partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=SILENCE)
            if low:
                raise _gone(topic, known, number, low)
            if high:
                left[number] = high
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        deadline = time.monotonic() + SILENCE
        while left:
            for message in consumer.consume(_AT_ONCE, 0.5):
                error, number, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise _unread(topic, known, error.str())
                assert number is not None  # of a record, and of a partition's end
                if error is not None or offset is None:
                    left.pop(number, None)  # what is left of it are offsets without a committed record
                elif number in left:
                    deadline = time.monotonic() + SILENCE
                    if offset < left[number]:
                        yield Event.of(message.key(), message.value(), headers(message))
                    if offset + 1 >= left[number]:
                        del left[number]
            if left and time.monotonic() > deadline:
                raise _unread(topic, known, problems[-1] if problems else f"nothing came in {SILENCE:g} s")
    except KafkaException as refused:
        raise _unread(topic, known, problems[-1] if problems else refused.args[0].str()) from refused
    finally:
        consumer.close()


def samples(expectation: Expectation) -> dict[str, object]:
    """Column -> a value that tells its type, of each column that has one in the expected rows."""
    columns = [*expectation.key_columns, *expectation.value_columns]
    rows = [(*key, *values) for key, values in expectation.rows.items()]
    return {name: _telling(row[at] for row in rows) for at, name in enumerate(columns)}


def _telling(values: Iterable[object]) -> object:
    return next((value for value in values if _tells(value)), None)


def _tells(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_tells, value))
    return value is not None


def typed(value: object, like: object) -> object:
    """`value`, from JSON, as the type of `like`; as it is if it is none."""
    if isinstance(value, list) and isinstance(like, (list, tuple)):
        element = _telling(like)
        return [typed(each, element) for each in value]
    if isinstance(value, dict) and isinstance(like, dict):
        return {name: typed(each, like.get(name)) for name, each in value.items()}
    try:
        return _scalar(value, like)
    except ValueError:
        return value


def _scalar(value: object, like: object) -> object:
    if isinstance(value, str):
        if isinstance(like, datetime):
            return datetime.fromisoformat(value)
        if isinstance(like, date):
            return date.fromisoformat(value)
        if isinstance(like, bytes):
            return base64.b64decode(value, validate=True)
        if isinstance(like, float):
            return float(value)  # NaN and the infinities are texts in JSON
    if isinstance(value, Decimal) and isinstance(like, float):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(like, (float, Decimal)):
        return type(like)(value)
    return value


def _object(value: bytes) -> dict[str, object]:
    """A record's value. What is no JSON object is a row of one column that nobody expects."""
    try:
        found = json.loads(value, parse_float=Decimal)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"(no object)": value.decode(errors="replace")}


def _unread(topic: str, known: Connection, said: str) -> VerificationError:
    return VerificationError(
        f"the topic cannot be read: {said}",
        expected="a topic that this connection may read",
        where=f"topic {topic} (connection {known.name})",
        next_step="see that the broker runs, that the topic is there, and that the connection may read it",
    )


def _gone(topic: str, known: Connection, partition: int, low: int) -> VerificationError:
    return VerificationError(
        f"the first {low} records of partition {partition} are not kept any more",
        expected="a topic that keeps all that was written to it",
        where=f"topic {topic} (connection {known.name})",
        next_step="verify a fork of the stream (a drill does): its topic keeps everything",
    )
