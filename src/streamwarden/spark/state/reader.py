"""Spark's reader of state, `statestore`."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from streamwarden.checkpoint.formats.uris import is_plain, of_hadoop, to_hadoop
from streamwarden.spark.internals.state.stores import state_reader


def state_after(spark: SparkSession, checkpoint: str, batch: int, options: Mapping[str, str]) -> DataFrame:
    """The rows of one table of state after `batch`. options: which one; Spark's default is that of operator 0."""
    return state_reader(spark).option("batchId", batch).options(**options).load(checkpoint)


@contextmanager
def plainly_named(checkpoint: str) -> Iterator[str]:
    """The checkpoint with a name that needs no encoding: Spark 4.3's reader of state encodes its path twice."""
    path = of_hadoop(checkpoint)
    if not path.startswith("/") or is_plain(path):
        yield to_hadoop(path)
        return
    with tempfile.TemporaryDirectory(prefix="streamwarden-state-") as folder:
        link = Path(folder) / "checkpoint"
        link.symlink_to(path)
        yield to_hadoop(str(link))
