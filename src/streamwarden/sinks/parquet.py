"""The kind of sink `parquet`: a folder of files under Spark's own manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamwarden.sinks.files.data import PARQUET, DataFormat
from streamwarden.sinks.files.sink import FileSink


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(FileSink):
    """A folder of Parquet files, whose columns have types; exactly once for readers that honour its `_spark_metadata`
    manifest. `mode` is `append`."""

    FORMATS: ClassVar[tuple[str, ...]] = ("parquet",)

    kind: str = "parquet"

    def data_format(self, like: Mapping[str, object]) -> DataFormat:
        return PARQUET
