"""Sessions of users: the events of an id until `is_last`, or until a silence longer than the timeout of its client.

    events   {"id": "web:4711", "data": "…", "is_last": false}, lines of files or records of a topic
    timeouts args: ["web=30m", "kiosk=10m", "*=2m"]; the client of an id is the part before its first colon, or the
             whole id. A client that is not listed has the timeout of `*`, and that is one minute if it is not given.

Why custom state: a session window closes by event time, with one event more or one gap for all. Here a special event
ends a session, the timeout depends on the key, and the clock is the wall clock. So the job uses `transformWithState`,
and of its two forms for Python the one of rows: a user has a handful of events in a batch, and a pandas frame for each
costs more than they do (6,000 events a second on two cores against 20,000).

State, by id:
    open  value  when the session began (ms), its number in that batch, its last event (ms), its events, its timer (ms)
    data  list   what its events held, in their order
What bounds it: a session ends at the latest when its id was silent for its timeout, and then nothing of it stays. The
state holds those of the last half hour. One that never pauses and never ends grows with its events; the check of the
state size reports it.

Time is processing time: all events of a batch come at the moment that it was planned, which Spark writes down first and
gives again when the batch runs again. In a batch the order is that of the files (modification, name) and their lines,
or that of the records (timestamp, partition, offset). A limit per batch cuts each partition where it is: for the order
from batch to batch the events of an id belong in one partition, so key them by it.

Timeouts fire when nothing comes, too. Timers make Spark run a batch at each trigger, empty or not, but only once this
driver has run one: after a restart into silence it would wait for the next event. So a clock (Spark's `rate` source,
whose rows are all left out) runs beside the events, and each trigger has something new. A timeout is late by a trigger
at most. A bounded run (`available_now`) reads all its input in one batch, since the clock knows no bounds, and ends
with it: what is open then stays open in the checkpoint.

Guarantee, end to end: exactly once. Each event is in one session and each session comes out once: files or offsets,
state with its timers, and the parquet sink's manifest all go by the batch. Readers must honour that manifest
(`_spark_metadata`). There is no id of an event: one that was published twice is two.

Lines or records that do not fit the schema, or lack id or data, are counted and kept aside in the stream's quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import coalesce, lit, timestamp_millis
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamwarden.errors import ConfigError
from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec
from streamwarden.units import parse_duration

SCHEMA = "id STRING, data STRING, is_last BOOLEAN"
OPEN = "started_ms BIGINT, number INT, last_ms BIGINT, events BIGINT, timer_ms BIGINT"
OUTPUT = """
    id STRING, client STRING, started_ms BIGINT, number INT, ended_ms BIGINT, reason STRING, events BIGINT,
    data ARRAY<STRING>
"""
ANY_CLIENT: Final = "*"
DEFAULT_MS: Final = 60_000


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """One row for each session, when it has ended: `reason` is LAST or TIMEOUT. Its key: id, started_at, number."""
    if spec.trigger.available_now:  # with timers there is always one batch more to run, and no end
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    events = read_rows(spark, spec, SCHEMA, required=("id", "data"), placed=True).select(
        "id", "data", coalesce("is_last", lit(False)).alias("is_last"), "written_ms", "place"
    )
    clock = (
        spark.readStream.format("rate")
        .load()
        .where("value < 0")
        .selectExpr("'' AS id", "'' AS data", "false AS is_last", "value AS written_ms", "'' AS place")
    )
    return (
        events.union(clock)
        .groupBy("id")
        .transformWithState(Sessions(timeouts(spec.args, spec.file)), OUTPUT, "Append", "ProcessingTime")
        .select(
            "id",
            "client",
            timestamp_millis("started_ms").alias("started_at"),
            "number",
            timestamp_millis("ended_ms").alias("ended_at"),
            "reason",
            "events",
            "data",
        )
    )


# The logic, without Spark.


class Event(NamedTuple):
    """What an id did."""

    data: str
    is_last: bool


class Session(NamedTuple):
    """An open session. Times in Unix milliseconds; `number` tells those apart that an id began in one batch."""

    started_ms: int
    number: int
    last_ms: int
    events: int
    timer_ms: int


class Closed(NamedTuple):
    """An ended session. `fresh` is the data of this batch; if it `resumed`, what was kept before it goes first."""

    session: Session
    ended_ms: int
    reason: str
    resumed: bool
    fresh: tuple[str, ...]


class Turn(NamedTuple):
    """What a batch does to an id: sessions that ended, oldest first; the one that is open now and its fresh data."""

    closed: tuple[Closed, ...]
    open: Session | None
    fresh: tuple[str, ...]


def advance(before: Session | None, events: Sequence[Event], now: int, timeout: int) -> Turn:
    """The events of one batch, in their order, on the session that was open before (None: none was).

    A session has one timer. It stays where it is while events push the end away: when it fires, `expire` moves it on.
    """
    closed = []
    current = before
    number = before.number + 1 if before is not None and before.started_ms == now else 0
    fresh: list[str] = []
    if current is not None and now > current.last_ms + timeout:
        closed.append(_closed(current, current.last_ms + timeout, "TIMEOUT", before, fresh))
        current = None
    for event in events:
        if current is None:
            current = Session(now, number, now, 0, timer_ms=0)
            number += 1
        current = current._replace(last_ms=max(now, current.last_ms), events=current.events + 1)
        fresh.append(event.data)
        if event.is_last:
            closed.append(_closed(current, now, "LAST", before, fresh))
            current, fresh = None, []
    if current is not None:
        due = current.last_ms + timeout
        # A timer later than that belongs to a timeout that was shortened.
        current = current._replace(timer_ms=min(current.timer_ms, due) if current.timer_ms else due)
    return Turn(tuple(closed), current, tuple(fresh))


def expire(current: Session, now: int, timeout: int) -> Closed | Session:
    """The session's timer has fired: the session has ended, or goes on with a later timer."""
    due = current.last_ms + timeout
    if now >= due:  # Spark fires a timer of this very millisecond, and forgets it
        return _closed(current, due, "TIMEOUT", current, [])
    return current._replace(timer_ms=due)


def _closed(session: Session, ended_ms: int, reason: str, before: Session | None, fresh: list[str]) -> Closed:
    resumed = before is not None and session[:2] == before[:2]
    return Closed(session, ended_ms, reason, resumed, tuple(fresh))


def client_of(user: str) -> str:
    """`web:4711` -> `web`; an id without a colon is a client of its own."""
    return user.partition(":")[0]


def timeouts(args: Sequence[str], where: str = "") -> dict[str, int]:
    """Client -> milliseconds of silence that end a session, from `CLIENT=DURATION`. Raises ConfigError."""
    found = {ANY_CLIENT: DEFAULT_MS}
    for arg in args:
        client, _, duration = arg.rpartition("=")
        try:
            milliseconds = round(parse_duration(duration) * 1000)
        except ValueError:
            milliseconds = 0
        if not client or milliseconds <= 0:
            raise ConfigError(
                f"args: {arg!r}",
                expected="CLIENT=DURATION, such as web=30m, or *=1m for every other client",
                where=where,
                next_step="correct `args` in the stream's file",
            )
        found[client] = milliseconds
    return found


# Between the logic and Spark.


class Sessions(StatefulProcessor):
    """Keeps the open session of each id in the state store."""

    def __init__(self, timeout_of: Mapping[str, int]) -> None:
        self._timeout_of = timeout_of

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark, once in each task."""
        self._handle = handle
        self._open = handle.getValueState("open", OPEN)
        self._data = handle.getListState("data", "data STRING")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 (Spark's)
        """Called by Spark with all events of an id in a batch; within a file they are in their order."""
        user: str = key[0]
        found = sorted(rows, key=lambda row: (row.written_ms, row.place))
        before = self._current()
        turn = advance(
            before,
            [Event(row.data, row.is_last) for row in found],
            timerValues.getCurrentProcessingTimeInMs(),
            self._timeout(user),
        )
        out = [self._row(user, closed) for closed in turn.closed]
        self._keep(before, turn)
        return iter(out)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Called by Spark after the rows of a batch, for each timer that does not lie after its time."""
        user: str = key[0]
        before = self._current()
        if before is None or before.timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return iter(())  # the session of this timer has ended in this very batch
        after = expire(before, timerValues.getCurrentProcessingTimeInMs(), self._timeout(user))
        if isinstance(after, Session):
            self._keep(before, Turn((), after, ()))
            return iter(())
        out = self._row(user, after)
        self._keep(before, Turn((after,), None, ()))
        return iter((out,))

    def _current(self) -> Session | None:
        # Asked first: Spark writes a line to its log for each get() of a value that is not there.
        value = self._open.get() if self._open.exists() else None
        return None if value is None else Session(*value)

    def _timeout(self, user: str) -> int:
        return self._timeout_of.get(client_of(user), self._timeout_of[ANY_CLIENT])

    def _row(self, user: str, closed: Closed) -> Row:
        kept = [value[0] for value in self._data.get()] if closed.resumed else []
        session = closed.session
        return Row(
            id=user,
            client=client_of(user),
            started_ms=session.started_ms,
            number=session.number,
            ended_ms=closed.ended_ms,
            reason=closed.reason,
            events=session.events,
            data=[*kept, *closed.fresh],
        )

    def _keep(self, before: Session | None, turn: Turn) -> None:
        """Write what the turn changed; a closed session was read by `_row` already."""
        after = turn.open
        if before is not None:
            if any(closed.resumed for closed in turn.closed):
                self._data.clear()
            if after is None:
                self._open.clear()
            if after is None or after.timer_ms != before.timer_ms:
                self._handle.deleteTimer(before.timer_ms)
        if after is not None:
            self._open.update(tuple(after))
            if turn.fresh:
                self._data.appendList([(data,) for data in turn.fresh])
            if before is None or after.timer_ms != before.timer_ms:
                self._handle.registerTimer(after.timer_ms)
