"""The kinds of sink of which `new` writes a stream that is ready to run: one entry each.

A sink that needs a service first (a topic, a table of a database) is not one of them.
"""

from collections.abc import Mapping
from typing import Final

SINKS: Final[Mapping[str, str]] = {
    "parquet": """\
  kind: parquet                      # exactly once, for readers that honour its _spark_metadata
  path: output/@NAME@""",
    "delta": """\
  kind: delta                        # exactly once, for every reader
  path: output/@NAME@                # or s3a://BUCKET/FOLDER, with `storage: {connection: …}`""",
    "iceberg": """\
  kind: iceberg                      # exactly once, for every reader
  path: output/@NAME@                # of a Hadoop catalog: its warehouse is the data folder; not s3a://""",
}
"""Kind -> the keys of `sink` in the stream's file. A new stream has the first, unless `--sink` names another."""

USUAL: Final = next(iter(SINKS))
