"""Watches the executors of a driver on a cluster, on a separate thread: which there are, through Spark's REST API, and
their memory, through their heartbeats.

Nothing waits for it, and a read that fails costs one sample: no batch, no progress report.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.errors import ProcessError
from streamwarden.health.signals.executors import ACTIVE, BYTES, CORES, FAILED_TASKS, LIMIT, LOST, UNREAD
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.events import UI_SERVED
from streamwarden.spark.executors.memory import Memory, memory_of
from streamwarden.spark.executors.metrics import SparkExecutor, addresses, executor_limit, read_executors
from streamwarden.spark.internals.executor_memory import ExecutorMemory
from streamwarden.spark.internals.jvm import JVM_ERRORS
from streamwarden.spark.log import say

EVERY: Final = 10.0
UNTIL_THE_FIRST: Final = 2.0
"""Seconds between two reads until an executor has reported its memory, which it does with its first heartbeat during a
task."""

EXECUTOR_LOST: Final = "executor_lost"
"""Kind of the event that a driver records for each executor it loses."""

_SOURCE: Final = "Spark's REST API"


class MeasurementSink(Protocol):
    """Receives measurements and events; neither call waits."""

    def measure(self, measurements: Iterable[Measurement]) -> None: ...
    def event(self, kind: str, **detail: str) -> None: ...


class MemoryReports(Protocol):
    """Listens to the executors of a session."""

    def newest(self) -> Mapping[str, Mapping[str, int]]:
        """Executor -> the parts of memory that it reported last."""


class ExecutorWatch:
    """Measures the executors of the first session's application, from its start to the driver's end.

    Args:
        listen: begins to listen to a session.
    """

    def __init__(
        self,
        stream: str,
        sink: MeasurementSink,
        *,
        listen: Callable[[Any], MemoryReports] = ExecutorMemory,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._sink = sink
        self._listen = listen
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
        arguments = (session, addresses(url), application, limit)
        threading.Thread(target=self._run, args=arguments, name="streamwarden executors", daemon=True).start()

    def close(self) -> None:
        """Stop watching; the UI ends with the driver."""
        self._ended.set()

    def _run(self, session: Any, bases: tuple[str, ...], application: str, limit: int) -> None:
        failing, pause, reported = False, UNTIL_THE_FIRST, self._reports(session)
        while not self._ended.wait(pause):
            try:
                executors = read_executors(bases, application)
                held = {executor: memory_of(parts) for executor, parts in reported().items()}
            except (ProcessError, *JVM_ERRORS) as error:
                if not failing and not self._ended.is_set():
                    say(f"the executors cannot be read: {error}")
                failing, pause = True, EVERY
                self._sink.measure([_count(self._stream, UNREAD, 1, "reads", self._clock())])
                continue
            failing = False
            self._report_losses(executors)
            self._sink.measure(measurements(executors, held, stream=self._stream, limit=limit, at=self._clock()))
            pause = EVERY if held else UNTIL_THE_FIRST

    def _reports(self, session: Any) -> Callable[[], Mapping[str, Mapping[str, int]]]:
        """Asks for the parts of memory of each executor; without a listener there are none, and the counts go on."""
        try:
            return self._listen(session).newest
        except Exception as error:  # whatever the JVM lacks, the driver is not the worse for it
            say(f"the memory of the executors is not measured: {type(error).__name__}: {error}")
            return dict

    def _report_losses(self, executors: Iterable[SparkExecutor]) -> None:
        for executor in executors:
            if executor.lost and executor.id not in self._lost:
                self._lost.add(executor.id)
                say(f"executor {executor.id} at {executor.host} was lost: {executor.reason}")
                self._sink.event(EXECUTOR_LOST, executor=executor.id, host=executor.host, reason=executor.reason)


def measurements(
    found: Iterable[SparkExecutor], held: Mapping[str, Memory], *, stream: str, limit: int, at: float
) -> Iterator[Measurement]:
    """The measurements of one reading: counts, and each living executor's memory and limit. Pure.

    Args:
        held: what each executor holds that has reported it.
    """
    executors = list(found)
    living = [executor for executor in executors if executor.active]
    yield _count(stream, ACTIVE, len(living), "executors", at)
    yield _count(stream, LOST, sum(executor.lost for executor in executors), "executors", at)
    yield _count(stream, CORES, sum(executor.cores for executor in living), "cores", at)
    yield _count(stream, FAILED_TASKS, sum(executor.failed_tasks for executor in executors), "tasks", at)
    for executor in living:
        memory = held.get(executor.id)
        if memory is None:
            continue
        kind = "resident" if memory.resident else "JVM only"
        source = f"executor {executor.id} at {executor.host}, {kind}"
        for name, value in ((BYTES, memory.bytes), (LIMIT, limit)):
            yield Measurement(stream=stream, name=name, at=at, value=float(value), unit="bytes", source=source)


def _count(stream: str, name: str, count: int, unit: str, at: float) -> Measurement:
    return Measurement(stream=stream, name=name, at=at, value=float(count), unit=unit, source=_SOURCE)
