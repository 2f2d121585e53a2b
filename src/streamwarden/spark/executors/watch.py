"""Watches the executors of a driver on a cluster through Spark's REST API, on a separate thread.

Nothing waits for it, and a read that fails costs one sample: no batch, no progress report.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.errors import ProcessError
from streamwarden.health.signals.executors import ACTIVE, BYTES, CORES, FAILED_TASKS, LIMIT, LOST
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.spark.executors.metrics import SparkExecutor, addresses, executor_limit, read_executors
from streamwarden.spark.log import say

EVERY: Final = 10.0
UNTIL_THE_FIRST: Final = 2.0
"""Seconds between two reads until an executor has reported its memory, which it does with its first heartbeat."""

EXECUTOR_LOST: Final = "executor_lost"
"""Kind of the event that a driver records for each executor it loses."""

_SOURCE: Final = "Spark's REST API"


class MeasurementSink(Protocol):
    """Receives measurements and events; neither call waits."""

    def measure(self, measurements: Iterable[Measurement]) -> None: ...
    def event(self, kind: str, **detail: str) -> None: ...


class ExecutorWatch:
    """Measures the executors of the first session's application, from its start to the driver's end."""

    def __init__(self, stream: str, sink: MeasurementSink, *, clock: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._sink = sink
        self._clock = clock
        self._started = False
        self._ended = threading.Event()
        self._lost: set[str] = set()

    def opened(self, session: Any) -> None:
        """A session was opened: record its UI's address, and watch its application, unless it runs in the driver's own
        process or has no UI."""
        if self._started:
            return
        try:
            context = session.sparkContext
            url, application = context.uiWebUrl, context.applicationId
            if url is not None:
                self._sink.event(UI_SERVED, url=url)
            if not manager_of(context.master).has_executors:
                return
            limit = executor_limit(dict(context.getConf().getAll()))
        except Exception as error:  # whatever it is, the job must get its session
            say(f"the executors are not watched: {type(error).__name__}: {error}")
            return
        if url is None:
            say("the executors are not watched: spark.ui.enabled is false")
            return
        self._started = True
        arguments = (addresses(url), application, limit)
        threading.Thread(target=self._run, args=arguments, name="streamwarden executors", daemon=True).start()

    def close(self) -> None:
        """Stop watching; the UI ends with the driver."""
        self._ended.set()

    def _run(self, bases: tuple[str, ...], application: str, limit: int) -> None:
        failing, pause = False, UNTIL_THE_FIRST
        while not self._ended.wait(pause):
            try:
                executors = read_executors(bases, application)
            except ProcessError as error:
                if not failing and not self._ended.is_set():
                    say(str(error))
                failing, pause = True, EVERY
                continue
            failing = False
            self._report_losses(executors)
            self._sink.measure(measurements(executors, stream=self._stream, limit=limit, at=self._clock()))
            pause = EVERY if any(executor.peak_bytes is not None for executor in executors) else UNTIL_THE_FIRST

    def _report_losses(self, executors: Iterable[SparkExecutor]) -> None:
        for executor in executors:
            if executor.lost and executor.id not in self._lost:
                self._lost.add(executor.id)
                say(f"executor {executor.id} at {executor.host} was lost: {executor.reason}")
                self._sink.event(EXECUTOR_LOST, executor=executor.id, host=executor.host, reason=executor.reason)


def measurements(found: Iterable[SparkExecutor], *, stream: str, limit: int, at: float) -> Iterator[Measurement]:
    """The measurements of one reading: counts, and each living executor's memory and limit. Pure."""
    executors = list(found)
    living = [executor for executor in executors if executor.active]
    for name, count, unit in (
        (ACTIVE, len(living), "executors"),
        (LOST, sum(executor.lost for executor in executors), "executors"),
        (CORES, sum(executor.cores for executor in living), "cores"),
        (FAILED_TASKS, sum(executor.failed_tasks for executor in executors), "tasks"),
    ):
        yield Measurement(stream=stream, name=name, at=at, value=float(count), unit=unit, source=_SOURCE)
    for executor in living:
        if executor.peak_bytes is None:
            continue
        kind = "resident" if executor.resident else "JVM only"
        source = f"executor {executor.id} at {executor.host}, {kind}"
        for name, value in ((BYTES, executor.peak_bytes), (LIMIT, limit)):
            yield Measurement(stream=stream, name=name, at=at, value=float(value), unit="bytes", source=source)
