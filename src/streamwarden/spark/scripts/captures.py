"""Captures the rows of a query's batches instead of writing them to an output that a fork must not touch.

Each batch is a folder `batch_id=N` of Parquet files, published by a rename when it is whole. A batch that is executed
again replaces the folder, and what was there before stays as an earlier attempt in `_again`: an append by the script's
own function would have been in its output twice.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from streamwarden.checkpoint.captures import AGAIN, WRITES, attempt_name, batch_name
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.spark.scripts.batch_writes import BatchWrites


class Capture:
    """A function for `foreachBatch`.

    Args:
        folder: of the query's output.
        function: what the script passed to `foreachBatch`, if it is to run too.
        writes: keeps what the function writes within the fork.
    """

    def __init__(
        self, folder: Path, writes: BatchWrites, function: Callable[[DataFrame, int], None] | None = None
    ) -> None:
        self._folder = folder
        self._writes = writes
        self._function = function

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        with _computed_once(frame, twice=self._function is not None) as rows:
            part = self._folder / f".{batch_name(batch_id)}"
            shutil.rmtree(part, ignore_errors=True)
            with self._writes.ours():
                rows.write.parquet(to_hadoop(str(part)))
            publish(self._folder, part, batch_id)
            if self._function is not None:
                with self._writes.redirected(self._folder / WRITES):
                    self._function(rows, batch_id)


def publish(folder: Path, part: Path, batch: int) -> None:
    """Make `part` the folder of the batch, and what was there before an earlier attempt."""
    target = folder / batch_name(batch)
    if target.exists():
        earlier = folder / AGAIN
        earlier.mkdir(exist_ok=True)
        attempts = len(list(earlier.glob(f"{batch_name(batch)}.*")))
        target.rename(earlier / attempt_name(batch, attempts + 1))
    part.rename(target)


@contextmanager
def _computed_once(frame: DataFrame, *, twice: bool) -> Iterator[DataFrame]:
    """The frame, kept if it is read twice: a row with a random value is the same one then."""
    if not twice:
        yield frame
        return
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
