"""The kind of source `files`: folders of files, and the malformed rows of a batch's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.logs import require_range
from streamwarden.checkpoint.sources import file_source_log
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.problems import Problem, show
from streamwarden.sources.base import Source, positive
from streamwarden.sources.rows import (
    CORRUPT,
    Rules,
    malformed_column,
    parsed,
    reason,
    schema_of,
    unusable,
    with_corrupt,
)
from streamwarden.stream import NAME_PATTERN, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TOUCHES_THE_ORIGINAL: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options (lower case) under which a source would move or delete files, in the origin's archive too."""

_SEEN_BY_NAME: Final = {"fileNameOnly": "true"}

_WITH_CORRUPT_RECORDS: Final = frozenset({"json", "csv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource(Source):
    """Folders of files, each published whole (by rename)."""

    FORKABLE: ClassVar[bool] = True

    kind: str = "files"
    path: str = field()
    """folder of files; it may be a pattern"""
    parts: tuple[str, ...] = ()
    """subfolders of `path`, each a separate file source, in the query's order (in a join, left first)"""
    format: str = "json"
    """Spark's name for the format of the files"""
    max_files_per_trigger: int | None = None
    """most files that a batch reads; null: all that are there"""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder of each file source, in the query's order."""
        return tuple(f"{self.path.rstrip('/')}/{part}" for part in self.parts) or (self.path,)

    @property
    def limited(self) -> bool:
        """Whether a batch reads at most so many files."""
        return self.max_files_per_trigger is not None

    def problems(self) -> Iterator[Problem]:
        yield from positive("max_files_per_trigger", self.max_files_per_trigger)
        for index, part in enumerate(self.parts):
            allowed = None
            if not NAME_PATTERN.fullmatch(part):
                allowed = f"a folder's name that matches {NAME_PATTERN.pattern}"
            elif part in self.parts[:index]:
                allowed = "each folder once"
            if allowed is not None:
                yield Problem(key=("source", "parts", index), observed=show(part), allowed=allowed)

    def located(self, locate: Callable[[str], str]) -> FilesSource:
        return replace(self, path=locate(self.path))

    def forked(self, places: Places, feed: Feed) -> FilesSource:
        """The fork reads links to the origin's files: it knows those that were read by their names."""
        kept = {
            key: value
            for key, value in self.options.items()
            if key.lower() not in _TOUCHES_THE_ORIGINAL and key.lower() != "filenameonly"
        }
        return replace(self, path=places.input, options=kept | _SEEN_BY_NAME)

    def limited_to(self, most: int) -> FilesSource:
        return replace(self, max_files_per_trigger=most)

    def batches(self, unseen: int) -> int | None:
        """None if a limit in bytes decides it."""
        options = {key.lower(): value for key, value in self.options.items()}
        if "maxbytespertrigger" in options:
            return None
        limit = self.max_files_per_trigger
        if limit is None and options.get("maxfilespertrigger", "").isdigit():
            limit = int(options["maxfilespertrigger"])
        return ceil(unseen / limit) if limit else min(unseen, 1)


@dataclass(frozen=True)
class FileSource:
    """What is needed to read a batch's files again, exactly as the query reads them."""

    format: str
    options: dict[str, str]
    rules: Rules

    def placing(self) -> list[Column]:
        """When a row was written, and the name of its file."""
        from pyspark.sql import functions as f

        modified = f.unix_millis("_metadata.file_modification_time")
        return [modified.alias("written_ms"), f.col("_metadata.file_name").alias("place")]

    def where(self) -> Column:
        """Where a row stands, in words."""
        from pyspark.sql import functions as f

        return f.concat(f.lit(f"{self.format} file "), f.col("_metadata.file_path"))

    def malformed_of(self, spark: SparkSession, checkpoint: Location, place: int, batch: int) -> DataFrame:
        """See `sources.Source`. `number` is a row's place in its file, from 1 on (of lines: blank ones apart)."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        read = file_source_log(checkpoint, place)
        if batch not in read:
            require_range(checkpoint, batch)
        names = list(read.get(batch, ()))
        schema = self.rules.schema
        if not names:
            return spark.createDataFrame([], "raw STRING, file STRING, number INT, reason STRING, parsed STRING")
        frame = spark.read.format(self.format).options(**self.options).schema(schema).load(names)
        raw = f.col(CORRUPT) if self.rules.corruptible else f.lit(None).cast("string")
        # A large file is read in blocks by several tasks; within a task the numbers rise with the rows.
        order = Window.partitionBy("file").orderBy("block", "at")
        return (
            frame.select(
                raw.alias("raw"),
                f.col("_metadata.file_path").alias("file"),
                f.col("_metadata.file_block_start").alias("block"),
                f.monotonically_increasing_id().alias("at"),
                parsed(self.rules).alias("parsed"),
                malformed_column(self.rules).alias("malformed"),
                unusable(self.rules).alias("unusable"),
            )
            .withColumn("number", f.row_number().over(order))
            .where("malformed")
            .select(
                "raw",
                "file",
                "number",
                reason(self.rules, json=self.format == "json", unparsed=f.col("raw").isNotNull()).alias("reason"),
                "parsed",
            )
        )


def read(
    spark: SparkSession,
    spec: StreamSpec,
    source: FilesSource,
    schema: StructType | str,
    place: int,
    *,
    required: tuple[str, ...],
    not_after: Mapping[str, timedelta],
) -> tuple[DataFrame, FileSource]:
    """The rows of the folder at `place` of the stream's, as they are, and what they must be. Raises ConfigError."""
    fields = schema_of(schema, required, not_after, spec.job)
    options = dict(source.options)
    if source.format in _WITH_CORRUPT_RECORDS:
        options |= {"mode": "FAILFAST"}
        if spec.quarantine is not None:
            options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
            fields = with_corrupt(fields)
    reader = spark.readStream.format(source.format).options(**options).schema(fields)
    if source.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", source.max_files_per_trigger)
    rules = Rules(
        schema=fields,
        required=required,
        not_after=not_after,
        written="_metadata.file_modification_time",
        holder="file",
    )
    return reader.load(source.folders[place]), FileSource(source.format, options, rules)


def place_of(part: str | None, spec: StreamSpec, source: FilesSource) -> int:
    """Which source of the query reads `part`. Raises ConfigError if the stream's file does not agree."""
    if part is None and not source.parts:
        return 0
    if part not in source.parts:
        raise ConfigError(
            f"the job reads the part {part!r}" if part else "the job reads no part, and the source has some",
            expected=f"one of source.parts: {', '.join(source.parts) or '(there are none)'}",
            where=spec.file or spec.name,
            next_step="make `source.parts` and the job's calls of read_rows agree",
        )
    return source.parts.index(part)
