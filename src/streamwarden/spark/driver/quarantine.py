"""Writes malformed rows to a quarantine, beside the query.

When a batch's report counts malformed rows, the batch's input is read once more and these rows are written:

    QUARANTINE/query=QUERY_ID/batch=N/*.json    raw: the row as it stood, reason, parsed: what could be read of it, and
                                                its place: file and number, or topic, partition and offset
                                                (of a file, raw is absent from a row that parses)

What a batch reads is fixed by the checkpoint, so the same batch gives the same rows: writing it again replaces it by
itself, and the next start writes what a kill left out. Input without malformed rows is read once only.

No batch delays the others for long. A batch whose input no longer exists is reported as a gap and left behind. One that
fails for another reason (an unavailable storage) is passed over after a few attempts: it is tried again every few
minutes and at the next start, until its rows are kept or its input no longer exists.
"""

import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeAlias

from streamwarden import disk
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.logs import first_known_batch, log_position
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import InputGone, StreamwardenError
from streamwarden.health.quarantine import mark_of
from streamwarden.lifecycle.failures.exits import shortened
from streamwarden.progress import Progress
from streamwarden.sources.base import BatchInput
from streamwarden.spark.internals.exceptions import full_text
from streamwarden.spark.log import say
from streamwarden.spark.sources import metric, registered
from streamwarden.stream.spec import STORED, StreamSpec

_RETRY_EVERY: Final = 10.0
_ATTEMPTS: Final = 5
"""Attempts, _RETRY_EVERY apart, before a batch is passed over."""

_PASSED_EVERY: Final = 300.0
"""Seconds between two attempts of what was passed over."""

_FIRST_BATCH_WAIT: Final = 60.0

_GONE: Final = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost|PATH_NOT_FOUND|FILE_NOT_EXIST")
"""Spark's own words for records that the retention removed, and for files that were removed. A storage that is
unavailable for a moment causes the same words, so this counts at the last attempt only."""

_Counted: TypeAlias = tuple[str, int, int | None]
"""A batch: query id, batch id, and its number of malformed rows, or None if no report had it."""


def _in_order(left_over: list[_Counted], counted: list[_Counted | None]) -> list[_Counted]:
    """Both, by batch; a known count replaces an unknown one."""
    counts = {(query_id, batch): count for query_id, batch, count in left_over}
    counts |= {(item[0], item[1]): item[2] for item in counted if item is not None}
    return sorted(((query_id, batch, count) for (query_id, batch), count in counts.items()), key=lambda item: item[1])


class Quarantines:
    """Writes the malformed rows of each batch, on a separate thread, in the order of the batches.

    Args:
        report: called on that thread with the detail of a `QUARANTINE_GAP`.
    """

    def __init__(self, spec: StreamSpec, report: Callable[[dict[str, str]], None] = lambda gap: None) -> None:
        self._spec = spec
        self._report = report
        self._queue: queue.SimpleQueue[_Counted | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._marks: dict[str, int] = {}
        self._passed: dict[int, _Counted] = {}
        self._ahead: set[int] = set()
        self._gaps: set[tuple[int, int]] = set()

    def seen(self, progress: Progress) -> None:
        """Take note of a batch's report; never waits."""
        metrics = [progress.observed_metrics.get(metric(place)) for place in registered(self._spec.name)]
        counted = [int(metric.get("malformed") or 0) for metric in metrics if metric is not None]
        if counted and "addBatch" in progress.durations_ms:
            self._queue.put((progress.query_id, progress.batch_id, sum(counted)))

    def start(self, spark: Any) -> None:
        """Begin to write, with the batches that an earlier driver committed and did not get to."""
        sources = registered(self._spec.name)
        if not sources or self._spec.quarantine is None:
            return
        if "://" not in self._spec.quarantine:
            with contextlib.suppress(OSError):  # Spark reports it when it writes there
                disk.private_folder(Path(self._spec.quarantine), below=Path(self._spec.quarantine).parent)
        self._thread = threading.Thread(
            target=self._run, args=(spark, sources), name="streamwarden quarantine", daemon=True
        )
        self._thread.start()

    def close(self, timeout: float = 20.0) -> None:
        """Write what is queued, then end. The next start writes what is not done in time."""
        self._closing.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, spark: Any, sources: Mapping[int, BatchInput]) -> None:
        # A restart's first batch has the cores to itself; what an earlier driver left over comes after it.
        counted = self._counted_so_far()
        open_end = None not in counted
        left = self._left_over()
        if left is None:
            return
        items = _in_order(left, counted)
        again_at = time.monotonic() + _PASSED_EVERY
        while True:
            for item in items:
                if not self._settle(spark, sources, item):
                    return
            if not open_end:
                return
            items = []
            with contextlib.suppress(queue.Empty):
                taken = self._queue.get(timeout=_PASSED_EVERY if self._passed else None)
                open_end = taken is not None
                # At the end, the checkpoint shows the batches whose report did not arrive in time.
                items = [taken] if taken is not None else self._left_over() or []
            if open_end and time.monotonic() >= again_at:
                for passed in list(self._passed.values()):
                    self._handle(spark, sources, passed, last=True)
                again_at = time.monotonic() + _PASSED_EVERY

    def _counted_so_far(self) -> list[_Counted | None]:
        """The queued batches once the first report has come, or after a minute without one."""
        items: list[_Counted | None] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._queue.get(timeout=_FIRST_BATCH_WAIT))
            while True:
                items.append(self._queue.get_nowait())
        return items

    def _left_over(self) -> list[_Counted] | None:
        """Committed batches beyond the marker. Retried, because the marker must not move until they are known; None if
        the driver ends first."""
        logged = False
        while True:
            try:
                position = log_position(open_path(self._spec.checkpoint))
                if position.query_id is None or position.committed is None:
                    return []
                first = self._begin(position.query_id, position.committed)
                return [(position.query_id, batch, None) for batch in range(first, position.committed + 1)]
            except (StreamwardenError, OSError) as error:
                if not logged:
                    say(f"quarantine: {shortened(str(error))}")
                logged = True
                if self._closing.wait(_RETRY_EVERY):
                    return None

    def _begin(self, query_id: str, committed: int) -> int:
        """The first batch to read. The batches beyond the marker that are missing in the offset log are one gap."""
        first = self._done(query_id) + 1
        first_known = first_known_batch(open_path(self._spec.checkpoint))
        # What was passed over, or written beyond it, is known one by one.
        if first_known is None or self._passed or not first < first_known <= committed + 1:
            return first
        self._settled(query_id, first_known - 1)
        if self._mark_place(query_id) is not None:  # without a mark it is not known whether they were kept
            self._gap(
                query_id, first, first_known - 1, f"the offset log has the input of batches from {first_known} on only"
            )
        return first_known

    def _settle(self, spark: Any, sources: Mapping[int, BatchInput], item: _Counted) -> bool:
        """Handle one batch, in a few attempts; if all fail, it is passed over. False: the driver ends."""
        for attempt in range(1, _ATTEMPTS + 1):
            if self._handle(spark, sources, item, last=attempt == _ATTEMPTS):
                return True
            if attempt < _ATTEMPTS and self._closing.wait(_RETRY_EVERY):
                return False
        self._passed[item[1]] = item
        return True

    def _handle(self, spark: Any, sources: Mapping[int, BatchInput], item: _Counted, *, last: bool) -> bool:
        """Write one batch's malformed rows and advance the marker. False: try again later."""
        query_id, batch, count = item
        try:
            if batch <= self._done(query_id) or batch in self._ahead:
                return True
            gone = None if count == 0 else self._write(spark, sources, query_id, batch, last=last)
            if gone is not None:
                self._gap(query_id, batch, batch, gone)
            self._settled(query_id, batch)
        except Exception as error:  # Spark, Hadoop, py4j and the disk each raise their own
            say(f"quarantine: batch {batch}: {shortened(str(error))}")
            return False
        return True

    def _write(
        self, spark: Any, sources: Mapping[int, BatchInput], query_id: str, batch: int, *, last: bool
    ) -> str | None:
        """Write one batch's malformed rows. Returns why not, if its input no longer exists."""
        checkpoint = open_path(self._spec.checkpoint)
        try:
            frames = [source.malformed_of(spark, checkpoint, place, batch) for place, source in sources.items()]
            rows = reduce(lambda one, other: one.unionByName(other), frames)
            target = to_hadoop(f"{self._spec.quarantine}/query={query_id}/batch={batch}")
            rows.coalesce(1).write.mode("overwrite").json(target)
        except InputGone as error:
            return str(error)
        except Exception as error:
            # Spark's stack names the cause where its message does not.
            if last and _GONE.search(full_text(error)):
                return str(error)
            raise
        return None

    def _gap(self, query_id: str, first: int, last: int, reason: str) -> None:
        """Report that the malformed rows of these batches, if they have any, will never be kept."""
        if (first, last) in self._gaps:
            return
        self._gaps.add((first, last))
        reason = shortened(reason)
        which = f"batch {first}" if first == last else f"batches {first} to {last}"
        say(f"quarantine: the malformed rows of {which} cannot be kept: {reason}")
        self._report({"query_id": query_id, "first": str(first), "last": str(last), "reason": reason})

    # The mark: every batch up to it is finished. No other process writes it while this driver has the lease.

    def _done(self, query_id: str) -> int:
        if query_id not in self._marks:
            place, mark = self._mark_place(query_id), -1
            with contextlib.suppress(FileNotFoundError, ValueError):
                mark = int(place.read()) if place is not None else mark
            self._marks[query_id] = mark
        return self._marks[query_id]

    def _settled(self, query_id: str, batch: int) -> None:
        """`batch` is finished: advance the marker past all consecutive finished batches."""
        passed = self._passed.keys() - {batch}
        ahead = self._ahead | {batch}
        mark = max(self._done(query_id), min(passed) - 1 if passed else max(ahead))
        place = self._mark_place(query_id)
        if place is not None and mark > self._done(query_id):
            place.write(str(mark).encode())
        self._marks[query_id] = mark
        self._ahead = {finished for finished in ahead if finished > mark}
        self._passed.pop(batch, None)

    def _mark_place(self, query_id: str) -> Location | None:
        """None: on a storage that only Spark reaches."""
        quarantine = self._spec.quarantine or ""
        if "://" in quarantine and not STORED.match(quarantine):
            return None
        return open_path(join(quarantine, mark_of(query_id)))
