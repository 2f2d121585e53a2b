"""The kind of sink `parquet`: a folder of files under Spark's own manifest."""

from __future__ import annotations

from dataclasses import dataclass

from streamwarden.sinks.file_sink.data import PARQUET, DataFormat
from streamwarden.sinks.file_sink.sink import FileSink
from streamwarden.verification.oracle import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(FileSink):
    """A folder of Parquet files, whose columns have types; exactly once for readers that honour its `_spark_metadata`
    manifest. `mode` is `append`."""

    kind: str = "parquet"

    def data_format(self, expectation: Expectation) -> DataFormat:
        return PARQUET
