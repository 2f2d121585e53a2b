"""`user_sessions` in PyFlink: a keyed process function in Python, its state in RocksDB, one timer for each user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from settings import configuration, given
from topics import sink, source

TIMEOUT_MS = {"web": 30 * 60_000, "kiosk": 10 * 60_000}
DEFAULT_MS = 60_000


class Sessions(KeyedProcessFunction):
    """Keeps the open session of each id."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called by Flink, once in each task."""
        self._open = runtime_context.get_state(ValueStateDescriptor("open", Types.PICKLED_BYTE_ARRAY()))
        self._data = runtime_context.get_list_state(ListStateDescriptor("data", Types.STRING()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        """One event."""
        event = json.loads(value)
        now = ctx.timer_service().current_processing_time()
        began, _, count, timer = self._open.value() or (now, now, 0, 0)
        self._data.add(event["data"])
        if event["is_last"]:
            yield self._ended(event["id"], began, now, count + 1, "LAST", timer, ctx)
            return
        if not timer:
            timer = now + timeout(event["id"])
            ctx.timer_service().register_processing_time_timer(timer)
        self._open.update((began, now, count + 1, timer))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        """The end of a session, or of what was its end before later events."""
        user = ctx.get_current_key()
        began, last, count, _ = self._open.value()
        due = last + timeout(user)
        if timestamp >= due:
            yield self._ended(user, began, due, count, "TIMEOUT", 0, ctx)
        else:
            ctx.timer_service().register_processing_time_timer(due)
            self._open.update((began, last, count, due))

    def _ended(self, user: str, began: int, ended: int, count: int, reason: str, timer: int, ctx: Any) -> str:
        row = {"id": user, "client": user.partition(":")[0], "started_at": began, "ended_at": ended}
        row |= {"reason": reason, "events": count, "data": list(self._data.get())}
        if timer:
            ctx.timer_service().delete_processing_time_timer(timer)
        self._open.clear()
        self._data.clear()
        return json.dumps(row)


def timeout(user: str) -> int:
    """Milliseconds of silence that end a session."""
    return TIMEOUT_MS.get(user.partition(":")[0], DEFAULT_MS)


if __name__ == "__main__":
    of = given()
    flow = StreamExecutionEnvironment.get_execution_environment(configuration(of))
    events = flow.from_source(source(of), WatermarkStrategy.no_watermarks(), "events", Types.STRING())
    by_user = events.key_by(lambda line: json.loads(line)["id"], Types.STRING())
    by_user.process(Sessions(), Types.STRING()).sink_to(sink(of))
    flow.execute("user_sessions")
