"""Records when Spark hands a batch to a Python function, when the function first wrote, and when it ended.

A drill that strikes between what a function writes and Spark's commit has to see that moment from outside. It lasts
some ten milliseconds, so the drill may ask the driver to wait there. Each function that a job passes to foreachBatch is
wrapped, whatever the job is: see `foreach_errors`, which does the same.
"""

import contextlib
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from streamwarden.lifecycle.handovers import Handover, await_release, kept, write_handovers
from streamwarden.spark.internals.hooks import around

_WRITES: Final = ("save", "json", "parquet", "text", "csv", "xml", "orc", "insertInto", "saveAsTable", "jdbc")
_WRITES_V2: Final = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")

_QUERY_ID: Final = "sql.streaming.queryId"
"""The property that Spark sets on the thread of a query."""

_NOOP: Final = "_streamwarden_noop"
"""Set on a writer whose format keeps nothing."""


class Handovers:
    """The record of one driver, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: defaultdict[str, list[Handover]] = defaultdict(list)
        self._lock = threading.Lock()
        self._here = threading.local()

    def watch(self) -> None:
        """From now on, record each call of a function of foreachBatch, and the first write within it."""
        from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        around(DataStreamWriter, "foreachBatch", lambda method, writer, func: method(writer, self.recorded(func)))
        around(DataFrameWriter, "format", _formatted)
        for owner, names in ((DataFrameWriter, _WRITES), (DataFrameWriterV2, _WRITES_V2)):
            for name in filter(functools.partial(hasattr, owner), names):  # Spark 3.5 writes no XML
                around(owner, name, self._written)

    def recorded(self, function: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """The function, whose calls are recorded."""

        @functools.wraps(function, updated=())
        def call(frame: Any, batch_id: int) -> None:
            query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID) or ""
            self._put(query, [*self._calls[query], Handover(query_id=query, batch=batch_id, began_at=time.time())])
            self._here.query = query
            raised = True
            try:
                function(frame, batch_id)
                raised = False
            finally:
                self._here.query = None
                self._change(query, ended_at=time.time(), raised=raised)
                if self._calls[query][-1].handed_over_at is not None:
                    await_release(self._folder)

        return call

    def _written(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        query = getattr(self._here, "query", None)
        result = method(writer, *args, **options)
        nothing = getattr(writer, _NOOP, False) or options.get("format") == "noop"
        if query is not None and not nothing and self._calls[query][-1].wrote_at is None:
            self._change(query, wrote_at=time.time())
        return result

    def _change(self, query: str, **changes: Any) -> None:
        *before, call = self._calls[query]
        self._put(query, [*before, replace(call, **changes)])

    def _put(self, query: str, calls: list[Handover]) -> None:
        """A full disk must not end the batch: the record is for drills."""
        with self._lock, contextlib.suppress(OSError):
            self._calls[query] = kept(calls)
            write_handovers(self._folder, (call for calls in self._calls.values() for call in calls))


def _formatted(method: Callable[..., Any], writer: Any, source: str) -> Any:
    setattr(writer, _NOOP, source == "noop")
    return method(writer, source)
