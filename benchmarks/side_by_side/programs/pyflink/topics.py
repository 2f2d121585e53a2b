"""The topics of the programs of PyFlink's DataStream API."""

from __future__ import annotations

from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from settings import Given


def source(of: Given) -> KafkaSource:
    """All records of the topic."""
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(of.servers)
        .set_topics(of.source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def sink(of: Given) -> KafkaSink:
    """Transactions that a checkpoint commits."""
    values = KafkaRecordSerializationSchema.builder().set_topic(of.sink)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(of.servers)
        .set_record_serializer(values.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(of.sink)
        .set_property("transaction.timeout.ms", "600000")
        .build()
    )
