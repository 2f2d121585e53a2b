"""Triggers of a deferred stream: they wait for the end of its driver, or for the time or the request to restart it.

A trigger holds no worker slot. It observes; it never starts and never signals a driver. A person's "mark failed"
becomes a stop request, which the driver obeys at a batch boundary and the supervisor process enforces outside Airflow's
time limits.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from asgiref.sync import sync_to_async

from streamwarden.adapters.processes import is_alive
from streamwarden.airflow.workspaces import workspace
from streamwarden.errors import StoreError
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.fleet.exits.log_records import LogRecords
from streamwarden.services.fleet.exits.log_tail import LogTail
from streamwarden.services.workspace import Workspace

POLL: Final = 0.5
"""Seconds between two observations of a driver: a dead one is noticed within 2 s, with a reserve for a busy machine."""

SHOW: Final = 2.0
"""Seconds between two readings of the log of a living driver. The way to a thread and back costs several times as much
as a look at the process, which the event loop does by itself."""

ASK_AGAIN: Final = 1.0
"""Seconds between two readings of the desired state."""

ASK_ABROAD: Final = 1.5
"""Seconds between two readings of the lease of a driver on another host; less than 2, which is the most that counts as
time in which the store answered (`lease_grace`)."""

ASKS_FOR: Final = 600.0
"""Seconds that a stop which a person asked for by a mark is tried again while the store is down."""

STATE_SETTLES: Final = 20.0
"""Seconds for which a cancelled trigger keeps asking for its task's state before it leaves the driver alone."""

_background: set[asyncio.Task[Any]] = set()
"""The event loop keeps only weak references to tasks; these must outlive the trigger that began them."""

_asked: set[int] = set()
"""The process (its pid) that has asked Airflow for a state before; see `_StreamTrigger._open_line`."""


class _StreamTrigger(BaseTrigger):
    """Base of the triggers: the stream, its workspace, and the stop request of a person. Arguments are attributes."""

    def __init__(self, *, stream: str, project: str) -> None:
        super().__init__()
        self.stream = stream
        self.project = project

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            name: getattr(self, name) for name in signature(kind).parameters
        }

    async def on_kill(self) -> None:
        """Turn a person's "mark failed" into a stop request; leave the driver alone in every other case.

        Airflow cancels this coroutine again after a second and also calls it when triggers move to another triggerer,
        so a separate task does the work and asks for the task instance's state first.
        """
        await asyncio.shield(_in_background(self._stop_if_marked_failed()))

    async def _stop_if_marked_failed(self) -> None:
        ti = self.task_instance
        if ti is None:
            return
        state = await self._settled_state(ti)
        where = f"{ti.dag_id} {ti.run_id} {ti.task_id}"
        if state != "failed":
            self.log.info("%s is %s: the driver of %s goes on, the next try reattaches", where, state, self.stream)
            return
        deadline = time.monotonic() + ASKS_FOR
        while True:
            try:
                return await asyncio.to_thread(self._request_stop, where)
            except StoreError as error:
                if time.monotonic() > deadline:
                    raise
                self.log.warning("%s cannot be asked to stop yet: %s", self.stream, error)
            await asyncio.sleep(ASK_AGAIN)

    async def _settled_state(self, ti: Any) -> str | None:
        """The task instance's state once it is no longer deferred; `deferred` if only the trigger moved."""
        deadline = time.monotonic() + STATE_SETTLES
        state: str | None = "unknown"
        while time.monotonic() < deadline:
            try:
                state = await _state_of(ti)
            except Exception as error:
                # Airflow's database may be unavailable; the person's request is worth asking again.
                self.log.warning("state of %s %s is not known: %s", ti.dag_id, ti.run_id, error)
            else:
                if state != "deferred":
                    return state
            await asyncio.sleep(ASK_AGAIN)
        return state

    async def _open_line(self) -> None:
        """Ask for a state once in each triggerer, when nothing depends on it yet.

        The first question makes the triggerer import the execution API, for seconds in which it does nothing else. In
        `on_kill` that would be the worst time: meanwhile SQLite gives the deleted trigger's id to the next one,
        and the triggerer takes the two for one.
        """
        if os.getpid() in _asked or self.task_instance is None:
            return
        _asked.add(os.getpid())
        try:
            await _state_of(self.task_instance)
        except Exception as error:
            self.log.warning("Airflow does not report the state of this task: %s", error)

    def _request_stop(self, where: str) -> None:
        space = workspace(self.project)
        request = space.fleet.request_stop(
            self.stream, requested_by="airflow: marked failed", reason=f"{where} was marked failed by a person"
        )
        if request is None:
            self.log.info("%s has no living driver; it stays stopped", self.stream)
        else:
            self.log.info("asked driver %s of %s to stop at a batch boundary", request.driver_id, self.stream)


class DriverTrigger(_StreamTrigger):
    """Fires when the driver has ended.

    Args:
        supervises: this is the stream's own task: show the driver's log in the task's log, and take "mark failed" for
            a request to stop the stream.
    """

    def __init__(self, *, stream: str, project: str, driver_id: str, supervises: bool = True) -> None:
        super().__init__(stream=stream, project=project)
        self.driver_id = driver_id
        self.supervises = supervises

    async def on_kill(self) -> None:
        if self.supervises:
            await super().on_kill()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        _in_background(self._open_line())
        space = await asyncio.to_thread(workspace, self.project)
        tail = LogTail.resumed(space.fleet.log_path(self.driver_id)) if self.supervises else None
        records = LogRecords()
        watch = DriverWatch(space, self.driver_id)
        look = partial(_look, watch, tail)
        store_down, show_at = False, 0.0
        while True:
            if time.monotonic() < show_at and watch.lives_here():
                await asyncio.sleep(POLL)
                continue
            show_at = time.monotonic() + SHOW
            seen = await asyncio.to_thread(look)
            if seen.failure is not None and not store_down:
                # The driver does not depend on the store, so watching must not end with it either.
                self.log.warning("the store is down, the driver's state is not known: %s", seen.failure)
            elif seen.failure is None and store_down:
                self.log.info("the store is back")
            store_down = seen.failure is not None
            self._show(records, seen.lines)
            if seen.ended is not None:
                while tail is not None and (lines := await asyncio.to_thread(tail.read, final=True)):
                    self._show(records, lines)
                yield TriggerEvent({"driver_id": self.driver_id, "exit": seen.ended})
                return
            await asyncio.sleep(POLL)

    def _show(self, records: LogRecords, lines: Sequence[str]) -> None:
        for record in records.of(lines):
            self.log.log(record.level, "%s", record.text)


class DriverWatch:
    """Observes one driver twice a second at almost no cost: while its process is alive, the store is not queried.

    One triggerer watches a thousand drivers; a thousand queries at each observation would take all of its time. A
    driver of another host is asked for less often, in the store.
    """

    def __init__(self, space: Workspace, driver_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._space = space
        self._driver_id = driver_id
        self._clock = clock
        self._process: ProcessIdentity | None = None
        self._ask_at = 0.0

    def lives_here(self) -> bool:
        """Whether the driver is known to run on this host. Reads a file of the kernel, and never waits."""
        return self._process is not None and is_alive(self._process) is True

    def ended(self) -> str | None:
        """The kind of the driver's exit; None while it is alive. Raises StoreError."""
        seen = None if self._process is None else is_alive(self._process)
        if seen or (self._process is not None and seen is None and self._clock() < self._ask_at):
            return None
        self._ask_at = self._clock() + ASK_ABROAD
        observation = self._space.fleet.observe(self._driver_id)
        # The runner records its end a moment before its process is gone, and until then it holds the lease.
        self._process = observation.record.process
        if observation.alive or (self._process is not None and is_alive(self._process)):
            return None
        return str(observation.exit.kind) if observation.exit is not None else "unknown"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look found: the kind of the driver's exit, why the store did not answer, and new lines of the log."""

    ended: str | None
    failure: StoreError | None
    lines: Sequence[str]


def _look(watch: DriverWatch, tail: LogTail | None) -> _Seen:
    """Look at the driver and at its log. Both in one call, because the way to a thread and back costs more than the
    look. Raises OSError if the log cannot be read."""
    ended, failure = None, None
    try:
        ended = watch.ended()
    except StoreError as error:
        failure = error
    return _Seen(ended, failure, () if tail is None else tail.read(final=ended is not None))


class StandbyTrigger(_StreamTrigger):
    """Fires at `until` (Unix seconds), or when the desired state changed after `since`."""

    def __init__(self, *, stream: str, project: str, since: float, until: float) -> None:
        super().__init__(stream=stream, project=project)
        self.since = since
        self.until = until

    async def run(self) -> AsyncIterator[TriggerEvent]:
        space = await asyncio.to_thread(workspace, self.project)
        while True:
            why = await asyncio.to_thread(self._reason_to_resume, space)
            if why is not None:
                yield TriggerEvent({"resume": why})
                return
            await asyncio.sleep(ASK_AGAIN)

    def _reason_to_resume(self, space: Workspace) -> str | None:
        if time.time() >= self.until:
            return "the back-off is over"
        try:
            state = space.store.stops.desired(self.stream)
        except StoreError:
            return None
        if state is not None and state.changed_at > self.since:
            return f"wanted {state.desired} by {state.changed_by}: {state.reason}"
        return None


class StoppedTrigger(_StreamTrigger):
    """Ends its task, without a worker, as soon as the stream should run."""

    async def on_kill(self) -> None:
        """The driver needs no stop request: it ended."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        space = await asyncio.to_thread(workspace, self.project)
        while (why := await asyncio.to_thread(self._reason_to_start, space)) is None:
            await asyncio.sleep(ASK_AGAIN)
        self.log.info("%s starts: %s", self.stream, why)
        yield TaskSuccessEvent()

    def _reason_to_start(self, space: Workspace) -> str | None:
        try:
            state = space.store.stops.desired(self.stream)
        except StoreError:
            return None
        if state is not None and state.desired is Desired.STOPPED:
            return None
        return f"wanted running by {state.changed_by}: {state.reason}" if state else "wanted running"


async def _state_of(ti: Any) -> str | None:
    """The task instance's state as Airflow has it; None if it has none."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    answer = await sync_to_async(RuntimeTaskInstance.get_task_states)(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id]
    )
    states = answer.get(ti.run_id)
    return next(iter(states.values()), None) if isinstance(states, dict) else None


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task
