"""Sets the streaming sources of a script's fork: they read the stream's own input, from its beginning.

A source never removes or moves the files that it has read. If the drill asks for a number of batches, each source reads
a part of its files or of its records in a batch.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.streaming.readwriter import DataStreamReader

from streamwarden.lint.named_places import BY_FORMAT
from streamwarden.sources import KINDS
from streamwarden.sources.base import StoredSource
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.readers_writers import format_of, options_of, session_of
from streamwarden.spark.internals.topic_size import kept_records

_READERS: Final = {name: kind for kind in KINDS.values() if issubclass(kind, StoredSource) for name in kind.FORMATS}

_COUNTED: Final = {"kafka": kept_records}
"""Formats whose input only private parts of Spark can count."""


def watch_reads(batches: int | None) -> None:
    """From now on, set the options of each streaming source of this process.

    Args:
        batches: about how many batches the input of each source is cut into; None: as the script cuts it.
    """

    def load(method: Callable[..., Any], reader: Any, *args: Any, **options: Any) -> Any:
        given = inspect.signature(method).bind(reader, *args, **options).arguments
        name = method.__name__
        format = str(given.get("format") or format_of(reader)) if name == "load" else name
        named = {key.lower(): str(value) for key, value in options.items() if value is not None}
        merged = {**options_of(reader), **named}
        if isinstance(path := given.get("path"), str):
            merged["path"] = path
        changes = changed(format.lower(), merged)
        if batches is not None and (cut := _cut(session_of(reader), format.lower(), merged, batches)) is not None:
            changes[cut[0]] = str(cut[1])
        for key, value in changes.items():
            reader.option(key, value)
        own = {key.lower() for key in changes}
        return method(reader, *args, **{key: value for key, value in options.items() if key.lower() not in own})

    for name in ("load", *BY_FORMAT):
        around(DataStreamReader, name, load)


def changed(format: str, options: Mapping[str, str | None]) -> dict[str, str]:
    """The options of a source that a fork sets, whatever the drill asks for.

    Args:
        format: in lower case.
        options: of the script, with names in lower case.
    """
    kind = _READERS.get(format)
    return {} if kind is None else kind.fork_options(options)


def _cut(spark: Any, format: str, options: Mapping[str, str | None], batches: int) -> tuple[str, int] | None:
    """The option that limits a batch of the source, and its value; None for a source that is not cut."""
    kind = _READERS.get(format)
    if kind is None:
        return None
    inputs = _COUNTED.get(format, kind.count)(spark, options)
    return None if inputs is None else (kind.LIMIT, limit(inputs, batches))


def limit(inputs: int, batches: int) -> int:
    """Files or records in a batch, for about that many batches."""
    return max(1, math.ceil(inputs / batches))
