"""Number of records in the topics of one of Spark's streaming sources, read with the settings that the script names.

Kafka's own Java client reads it, in the JVM of the driver: only it interprets every setting as Spark's connector does.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JError

_OF_KAFKA: Final = "kafka."
"""Begins the options that Spark's connector hands over to Kafka's client."""

_DESERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def kept_records(spark: Any, options: Mapping[str, str | None]) -> int | None:
    """The records of all partitions, by their offsets.

    Args:
        options: of the source, with names in lower case.

    None: the brokers or the options do not say. Reading with them then raises why.
    """
    try:
        consumer = _consumer(spark, options)
        try:
            places = spark._jvm.java.util.ArrayList()
            for topic, number in _partitions(spark, consumer, options):
                places.add(spark._jvm.org.apache.kafka.common.TopicPartition(topic, number))
            first, last = consumer.beginningOffsets(places), consumer.endOffsets(places)
            return sum(int(last.get(place)) - int(first.get(place)) for place in places)
        finally:
            consumer.close()
    except (Py4JError, ValueError):
        return None


def _consumer(spark: Any, options: Mapping[str, str | None]) -> Any:
    settings = spark._jvm.java.util.Properties()
    for name, value in client_settings(options).items():
        settings.put(name, value)
    return spark._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)


def client_settings(options: Mapping[str, str | None]) -> dict[str, str]:
    """The settings of Kafka's client among the options."""
    named = {name.removeprefix(_OF_KAFKA): value for name, value in options.items() if name.startswith(_OF_KAFKA)}
    return {
        **{name: value for name, value in named.items() if value is not None},
        "key.deserializer": _DESERIALIZER,
        "value.deserializer": _DESERIALIZER,
    }


def _partitions(spark: Any, consumer: Any, options: Mapping[str, str | None]) -> list[tuple[str, int]]:
    """(topic, number) of each partition that the source reads. Raises ValueError if the options do not say."""
    assigned = options.get("assign")
    if assigned is not None:
        return [(topic, int(number)) for topic, numbers in json.loads(assigned).items() for number in numbers]
    pattern, subscribed = options.get("subscribepattern"), options.get("subscribe")
    if pattern is not None:
        matches = spark._jvm.java.util.regex.Pattern.matches
        topics = [name for name in consumer.listTopics().keySet() if matches(pattern, name)]
    elif subscribed is not None:
        topics = [name.strip() for name in subscribed.split(",")]
    else:
        raise ValueError("no option names a topic")
    return [(topic, part.partition()) for topic in topics for part in consumer.partitionsFor(topic)]
