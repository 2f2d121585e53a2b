"""Describes the offset of any kind of source, for people. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from streamwarden.checkpoint.formats.layout import is_number, is_partition
from streamwarden.checkpoint.formats.sources import log_offset
from streamwarden.checkpoint.table_offsets import delta_offset, iceberg_offset


def describe_offset(value: Any, files: int | None = None) -> str:
    """A source's end offset for people: file log, table, Kafka (topic, partitions, offsets), rate; others unchanged."""
    if value is None:
        return "no offset"
    offset = log_offset(value)
    if offset is not None:
        return f"file log offset {offset}" + ("" if files is None else f", {files} file{'' if files == 1 else 's'}")
    if (position := delta_offset(value) or iceberg_offset(value)) is not None:
        return str(position)
    if isinstance(value, Mapping) and value and all(_is_topic(parts) for parts in value.values()):
        return "; ".join(f"topic {topic}: {_partitions(parts)}" for topic, parts in sorted(value.items()))
    if isinstance(value, int):
        return f"offset {value}"
    return value if isinstance(value, str) else json.dumps(value)


def _is_topic(value: Any) -> bool:
    return isinstance(value, Mapping) and all(is_partition(key) and is_number(at) for key, at in value.items())


def _partitions(parts: Mapping[str, int]) -> str:
    ordered = sorted(parts.items(), key=lambda item: int(item[0]))
    plural = "" if len(ordered) == 1 else "s"
    return f"{len(ordered)} partition{plural} up to " + ", ".join(f"{partition}:{at}" for partition, at in ordered)
