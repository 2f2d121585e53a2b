"""Keeps malformed rows aside, beside the query.

When a batch's report counts malformed rows, the batch's input is read once more and these rows are written:

    QUARANTINE/query=QUERY_ID/batch=N/*.json    raw: the row as it stood, reason, parsed: what could be read of it, and
                                                its place: file and number, or topic, partition and offset
                                                (of a file, raw is absent from a row that parses)

What a batch reads is fixed by the checkpoint, so the same batch gives the same rows: writing it again replaces it by
itself, and what a kill left out is made up for at the next start. Input without malformed rows is read once only.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final, TypeAlias

from streamwarden.adapters.files import FsspecFiles, LocalFiles, open_path
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.logs import log_position
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.exits import shortened
from streamwarden.progress import Progress
from streamwarden.spark.sources import Source, metric, registered
from streamwarden.stream import OBJECT_STORE, StreamSpec

_RETRY_EVERY: Final = 10.0
_FIRST_BATCH_WAIT: Final = 60.0

_Counted: TypeAlias = tuple[str, int, int | None]
"""A batch: query id, batch id, and its number of malformed rows, or None when no report told."""


def _in_order(left_over: list[_Counted], counted: list[_Counted | None]) -> list[_Counted]:
    """Both by batch; a count that is known stands before one that is not."""
    known = {(query_id, batch): count for query_id, batch, count in left_over}
    known |= {(item[0], item[1]): item[2] for item in counted if item is not None}
    return sorted(((query_id, batch, count) for (query_id, batch), count in known.items()), key=lambda item: item[1])


class Quarantines:
    """Writes the malformed rows of each batch, on a thread of its own, in the order of the batches."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._queue: queue.SimpleQueue[_Counted | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._marks: dict[str, int] = {}

    def seen(self, progress: Progress) -> None:
        """Take note of a batch's report; never waits."""
        metrics = [progress.observed_metrics.get(metric(place)) for place in registered(self._spec.name)]
        counted = [int(each.get("malformed") or 0) for each in metrics if each is not None]
        if counted and "addBatch" in progress.durations_ms:
            self._queue.put((progress.query_id, progress.batch_id, sum(counted)))

    def start(self, spark: Any) -> None:
        """Begin to write, with the batches that an earlier driver committed and did not get to."""
        sources = registered(self._spec.name)
        if not sources or self._spec.quarantine is None:
            return
        self._thread = threading.Thread(
            target=self._run, args=(spark, sources), name="streamwarden quarantine", daemon=True
        )
        self._thread.start()

    def close(self, timeout: float = 20.0) -> None:
        """Write what is queued, then end. What is not done in time is made up for at the next start."""
        self._closing.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, spark: Any, sources: Mapping[int, Source]) -> None:
        # A restart's first batch has the cores to itself; what an earlier driver left over comes after it.
        counted = self._counted_so_far()
        open_end = None not in counted
        left = self._left_over()
        if left is None:
            return
        items = _in_order(left, counted)
        while True:
            for query_id, batch, count in items:
                while not self._handle(spark, sources, query_id, batch, count):
                    if self._closing.wait(_RETRY_EVERY):
                        return
            if not open_end:
                return
            item = self._queue.get()
            open_end = item is not None
            # At the end, the checkpoint tells of the batches whose report did not come in time.
            items = [item] if item is not None else self._left_over() or []

    def _counted_so_far(self) -> list[_Counted | None]:
        """What is queued when the first report has come, or after a minute without one."""
        items: list[_Counted | None] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._queue.get(timeout=_FIRST_BATCH_WAIT))
            while True:
                items.append(self._queue.get_nowait())
        return items

    def _left_over(self) -> list[_Counted] | None:
        """Committed batches beyond the mark. Until they are known the mark must not move, so this is tried again; None:
        the driver ended first."""
        told = False
        while True:
            try:
                position = log_position(*open_path(self._spec.checkpoint))
                if position.query_id is None or position.committed is None:
                    return []
                first = self._done(position.query_id) + 1
                return [(position.query_id, batch, None) for batch in range(first, position.committed + 1)]
            except (StreamwardenError, OSError) as error:
                if not told:
                    print(f"streamwarden: quarantine: {shortened(str(error))}", file=sys.stderr, flush=True)
                told = True
                if self._closing.wait(_RETRY_EVERY):
                    return None

    def _handle(self, spark: Any, sources: Mapping[int, Source], query_id: str, batch: int, count: int | None) -> bool:
        """Write one batch's malformed rows (`count`; None: not known) and move the mark. False: try again later."""
        try:
            if batch <= self._done(query_id):
                return True
            if count != 0:
                self._write(spark, sources, query_id, batch)
            self._mark(query_id, batch)
        except Exception as error:  # Spark, Hadoop, py4j and the disk each raise their own
            print(f"streamwarden: quarantine of batch {batch}: {shortened(str(error))}", file=sys.stderr, flush=True)
            return False
        return True

    def _write(self, spark: Any, sources: Mapping[int, Source], query_id: str, batch: int) -> None:
        fs, path = open_path(self._spec.checkpoint)
        try:
            found = [source.malformed_of(spark, fs, path, place, batch) for place, source in sources.items()]
        except (StreamwardenError, OSError) as error:
            raise RuntimeError(f"its input is not known: {error}") from error
        rows = reduce(lambda one, other: one.unionByName(other), found)
        target = f"{self._spec.quarantine}/query={query_id}/batch={batch}"
        rows.coalesce(1).write.mode("overwrite").json(target)

    # The mark: the last batch whose malformed rows are all kept. Nobody else writes it while this driver has the lease.

    def _done(self, query_id: str) -> int:
        if query_id not in self._marks:
            place, known = self._mark_place(query_id), -1
            with contextlib.suppress(FileNotFoundError, ValueError):
                known = int(place[0].read(place[1])) if place is not None else known
            self._marks[query_id] = known
        return self._marks[query_id]

    def _mark(self, query_id: str, batch: int) -> None:
        place = self._mark_place(query_id)
        if place is not None:
            place[0].write(place[1], str(batch).encode())
        self._marks[query_id] = batch

    def _mark_place(self, query_id: str) -> tuple[LocalFiles | FsspecFiles, str] | None:
        """None: on a storage that only Spark reaches."""
        quarantine = self._spec.quarantine or ""
        if "://" in quarantine and not OBJECT_STORE.match(quarantine):
            return None
        return open_path(join(quarantine, f"_done-{query_id}"))
