"""The kinds of source: one module each, and one line here."""

from collections.abc import Mapping
from typing import Final

from streamwarden.sources.delta.source import DeltaSource
from streamwarden.sources.files import FilesSource
from streamwarden.sources.iceberg.source import IcebergSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.sources.rate import RateSource
from streamwarden.stream.spec import SourceSpec

KINDS: Final[Mapping[str, type[SourceSpec]]] = {
    "files": FilesSource,
    "kafka": KafkaSource,
    "delta": DeltaSource,
    "iceberg": IcebergSource,
    "rate": RateSource,
    "script": SourceSpec,
}
"""A stream whose file names no kind has the first."""
