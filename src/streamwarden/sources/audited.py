"""Shared by the kinds of source for an audit: how a job asks for a source, the column of the rows that it gets, and how
files that a log names are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.checkpoint.formats.uris import literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

AUDIT: Final = "__streamwarden_audit"
"""The column that each row carries: the URI of the file that it comes from, or the `batch_tag` of its batch."""

BATCH: Final = "batch "
"""In the column AUDIT of a row that comes from no file, before the number of the batch that read it."""


class CannotBalance(Exception):
    """The audit cannot balance this query; the text gives the reason."""


@dataclass(frozen=True)
class AskedSource:
    """A streaming source as a job asks for it.

    Args:
        format: as the job names it; empty if it does not.
        options: of the reader; path: of a folder.
        seen: sources other than files that the job has read so far: the audit could not tell a second one from it.
    """

    spark: SparkSession
    format: str
    options: Mapping[str, str]
    path: str | None
    schema: StructType | str | None
    seen: set[str]

    @property
    def lowered(self) -> dict[str, str]:
        """The options by lower-case name."""
        return {name.lower(): value for name, value in self.options.items()}

    def require_first(self, place: str = "") -> None:
        """Raises CannotBalance if the job has read this source before."""
        if self.format + place in self.seen:
            raise CannotBalance(f"the job reads one source of the format {self.format} several times")
        self.seen.add(self.format + place)

    def unreadable(self) -> CannotBalance:
        return CannotBalance(f"the audit cannot read a source of the format {self.format or 'parquet'} again")


def load_exactly(reader: DataFrameReader, uris: Sequence[str]) -> DataFrame:
    """The rows of the files at these URIs, as Spark's logs write them, each once; there is at least one.

    Spark's own source of files turns patterns off (`__globPaths__`), and by that reads all files once more for each
    name that looks like a pattern (4.3.0).
    """
    return reader.load([literal(uri) for uri in uris])


def batch_tag(column: str) -> Column:
    """The column AUDIT of rows whose batch is in `column`."""
    from pyspark.sql import functions as f

    return f.concat(f.lit(BATCH), f.col(column).cast("string")).alias(AUDIT)
