"""Sets the streaming sources of a script's fork: they read the stream's own input, from its beginning.

A source never removes or moves the files that it has read. If the drill asks for a number of batches, each source reads
a part of its files or of its records in a batch.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql.streaming.readwriter import DataStreamReader

from streamwarden.lifecycle.forks.scripts import FILE_FORMATS, TOPIC_FORMAT
from streamwarden.spark.internals.hooks import around
from streamwarden.spark.internals.readers_writers import format_of, options_of, session_of
from streamwarden.spark.internals.topic_size import kept_records

_BY_FORMAT: Final = ("json", "orc", "parquet", "text", "csv", "xml")

_CLEANING: Final = frozenset({"cleansource", "sourcearchivedir"})

_FILES_LIMIT: Final = "maxFilesPerTrigger"

_RECORDS_LIMIT: Final = "maxOffsetsPerTrigger"

_BEGIN: Final = "startingOffsets"

_BY_TIME: Final = frozenset({"startingtimestamp", "startingoffsetsbytimestamp"})
"""Options of a topic before which Spark does not read `startingOffsets`."""


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
        path = given.get("path") or merged.get("path")
        changes = changed(format.lower(), merged)
        if batches is not None and (cut := _cut(session_of(reader), format.lower(), path, merged, batches)) is not None:
            changes[cut[0]] = str(cut[1])
        for key, value in changes.items():
            reader.option(key, value)
        own = {*_CLEANING, *(key.lower() for key in changes)}
        return method(reader, *args, **{key: value for key, value in options.items() if key.lower() not in own})

    for name in ("load", *_BY_FORMAT):
        around(DataStreamReader, name, load)


def changed(format: str, options: Mapping[str, str | None]) -> dict[str, str]:
    """The options of a source that a fork sets, whatever the drill asks for.

    Args:
        format: in lower case.
        options: of the script, with names in lower case.
    """
    if format == TOPIC_FORMAT:  # as the fork of any other job: the rows that are new when it starts would be none
        return {} if _BY_TIME & set(options) else {_BEGIN: "earliest"}
    return {"cleanSource": "off"} if _CLEANING & set(options) else {}


def _cut(
    spark: Any, format: str, path: object, options: Mapping[str, str | None], batches: int
) -> tuple[str, int] | None:
    """The option that limits a batch of the source, and its value; None for a source that is not cut."""
    if format == TOPIC_FORMAT:
        records = kept_records(spark, options)
        return None if records is None else (_RECORDS_LIMIT, limit(records, batches))
    if format in FILE_FORMATS and isinstance(path, str) and "maxbytespertrigger" not in options:
        return _FILES_LIMIT, limit(_files(spark, path), batches)
    return None


def limit(inputs: int, batches: int) -> int:
    """Files or records in a batch, for about that many batches."""
    return max(1, math.ceil(inputs / batches))


def _files(spark: Any, path: str) -> int:
    """Number of files that exist now; 0 if they cannot be listed: reading them raises the same error."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return len(reader.load(path).inputFiles())
    except AnalysisException:
        return 0
