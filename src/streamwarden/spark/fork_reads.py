"""What the fork of a script changes of the script's streaming sources: they read the stream's own input.

A source never removes or moves the files that it has read. If the drill asks for a number of batches, each source of
files reads a part of its files in a batch.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, Final

from streamwarden.spark.query_starts import options_of, private_field

_BY_FORMAT: Final = ("json", "orc", "parquet", "text", "csv", "xml")

_FILES: Final = frozenset({*_BY_FORMAT, "avro", "binaryfile"})

_CLEANING: Final = frozenset({"cleansource", "sourcearchivedir"})

_LIMIT: Final = "maxFilesPerTrigger"


def watch_reads(batches: int | None) -> None:
    """From now on, set the options of each streaming source of this process.

    Args:
        batches: about how many batches the files of each source are cut into; None: as the script cuts them.
    """
    from pyspark.sql.streaming.readwriter import DataStreamReader

    for name in ("load", *_BY_FORMAT):
        _wrap(DataStreamReader, name, batches)


def _wrap(owner: Any, name: str, batches: int | None) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def load(reader: Any, *args: Any, **options: Any) -> Any:
        kept = {key: value for key, value in options.items() if key.lower() not in {*_CLEANING, *limits(batches)}}
        given = inspect.signature(method).bind(reader, *args, **kept).arguments
        seen = options_of(reader._jreader)
        if _CLEANING & set(seen):
            reader.option("cleanSource", "off")
        format = str(given.get("format") or private_field(reader._jreader, "source")) if name == "load" else name
        path = given.get("path") or seen.get("path")
        if (
            batches is not None
            and isinstance(path, str)
            and format.lower() in _FILES
            and "maxbytespertrigger" not in seen
        ):
            reader.option(_LIMIT, limit(_files(reader._spark, path), batches or 1))
        return method(reader, *args, **kept)

    setattr(owner, name, load)


def limits(batches: int | None) -> tuple[str, ...]:
    """The option that a number of batches replaces, in lower case."""
    return () if batches is None else (_LIMIT.lower(),)


def limit(files: int, batches: int) -> int:
    """Files in a batch, for about that many batches."""
    return max(1, math.ceil(files / batches))


def _files(spark: Any, path: str) -> int:
    """How many files there are now; 0 if they cannot be listed: reading them raises the same."""
    from pyspark.errors import AnalysisException

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return len(reader.load(path).inputFiles())
    except AnalysisException:
        return 0
