"""The kinds of sink: one module each, and one line here."""

from collections.abc import Mapping
from typing import Final

from streamwarden.sinks.files.formats import FilesSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spec import SinkSpec

KINDS: Final[Mapping[str, type[SinkSpec]]] = {
    "parquet": ParquetSink,
    "files": FilesSink,
    "postgresql": PostgresqlSink,
    "kafka": KafkaSink,
    "script": SinkSpec,
}
"""A stream whose file names no kind has the first."""
