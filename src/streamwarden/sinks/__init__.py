"""The kinds of sink: one module each, and one line here."""

from collections.abc import Mapping
from typing import Final

from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.files.formats import FilesSink
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spec import SinkSpec

KINDS: Final[Mapping[str, type[SinkSpec]]] = {
    "parquet": ParquetSink,
    "files": FilesSink,
    "postgresql": PostgresqlSink,
    "kafka": KafkaSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "script": SinkSpec,
}
"""A stream whose file names no kind has the first."""

WRITERS: Final[Mapping[str, str | None]] = {name: kind.REPEATS for kind in KINDS.values() for name in kind.FORMATS}
"""Spark's name of a streaming sink of these kinds -> why it does not write a batch exactly once; None if it does."""
