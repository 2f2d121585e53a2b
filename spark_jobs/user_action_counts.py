"""How often each user acted, and what they did last: a row in every batch in which they acted, and one when they left.

    user_actions  {"user_id": 7, "action": "login"}, lines of files or records of a topic
    timeout       args: ["timeout=5m"], also the default: a user silent for longer gets a row TIMEOUT with the final
                  count, and is forgotten. A user who comes back begins at one again.

Why custom state: a native aggregation counts as well, and some ten times faster, but it forgets a user only by event
time, and has no row to say so. Here the wall clock decides. So the job uses `transformWithState`, and of its two forms
for Python the one of rows: a user has a handful of actions in a batch, and a pandas frame for each costs more than they
do (6,000 rows a second on two cores against 20,000).

State, by user_id:
    user  value  actions so far, the last one, when it came (ms), the user's timer (ms)
What bounds it: one row of some 60 bytes and one timer for each user of the last five minutes. The timer
removes a user who is silent for longer.

Time is processing time: all actions of a batch come at the moment that it was planned, which Spark writes down first
and gives again when the batch runs again. In a batch the order, which decides which action is the last, is that of the
files (modification, name) and their lines, or that of the records (timestamp, partition, offset). A limit per batch
cuts each partition where it is: for the order from batch to batch a user's actions belong in one partition, so key them
by user.

Timeouts fire when nothing comes, too: a clock (Spark's `rate` source, whose rows are all left out) runs beside the
actions, so that each trigger has a batch, also after a restart into silence, when Spark alone would run none. A timeout
is late by a trigger at most. A bounded run (`available_now`) reads all its input in one batch, since the clock knows no
bounds, and ends with it: the users counted then stay in the checkpoint.

Guarantee, end to end: exactly once. Files or offsets, state with its timers, and the parquet sink's manifest all go by
the batch. Readers must honour that manifest (`_spark_metadata`). A row is one state of a counter, so the sink appends:
the newest row of a user is the current one, and the sum of `added` over all rows is the number of actions, always. An
action that was published twice counts twice: it has no id.

Lines or records that do not fit the schema, or lack the user or the action, are counted and kept aside in the stream's
quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import timestamp_millis
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamwarden.errors import ConfigError
from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec
from streamwarden.units import parse_duration

SCHEMA = "user_id INT, action STRING"
USER = "actions BIGINT, last_action STRING, last_ms BIGINT, timer_ms BIGINT"
OUTPUT = "user_id INT, at_ms BIGINT, status STRING, count BIGINT, last_action STRING, added BIGINT"
DEFAULT_MS: Final = 300_000


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """A row UPDATE for each user and batch with actions, a row TIMEOUT for each who left. Key: user_id, at, status.

    `count` is the user's actions since they came, `added` those of this row (0 in a TIMEOUT), `at` the batch's time, or
    in a TIMEOUT the end of the silence.
    """
    if spec.trigger.available_now:  # with timers there is always one batch more to run, and no end
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    actions = read_rows(spark, spec, SCHEMA, required=("user_id", "action"), placed=True).select(
        "user_id", "action", "written_ms", "place"
    )
    clock = (
        spark.readStream.format("rate")
        .load()
        .where("value < 0")
        .selectExpr("0 AS user_id", "'' AS action", "value AS written_ms", "'' AS place")
    )
    return (
        actions.union(clock)
        .groupBy("user_id")
        .transformWithState(Counts(timeout(spec.args, spec.file)), OUTPUT, "Append", "ProcessingTime")
        .select("user_id", timestamp_millis("at_ms").alias("at"), "status", "count", "last_action", "added")
    )


# The logic, without Spark.


class User(NamedTuple):
    """A user who is not forgotten. Times in Unix milliseconds."""

    actions: int
    last_action: str
    last_ms: int
    timer_ms: int


class Output(NamedTuple):
    """A row to come out."""

    at_ms: int
    status: str
    actions: int
    last_action: str
    added: int


class Turn(NamedTuple):
    """What a batch does to a user: rows in their order, and what is known of them now (None: they are forgotten)."""

    written: tuple[Output, ...]
    user: User | None


def advance(before: User | None, added: int, last_action: str, now: int, silence: int) -> Turn:
    """`added` actions (at least one) of one batch, on the user as they were before (None: not known).

    A user has one timer. It stays where it is while actions push the end away: when it fires, `expire` moves it on.
    """
    written = []
    if before is not None and now > before.last_ms + silence:
        written.append(_timeout(before, silence))
        before = None
    total = added + (0 if before is None else before.actions)
    last = now if before is None else max(now, before.last_ms)
    # A timer later than the end of the silence belongs to a timeout that was shortened.
    timer = last + silence if before is None else min(before.timer_ms, last + silence)
    written.append(Output(now, "UPDATE", total, last_action, added))
    return Turn(tuple(written), User(total, last_action, last, timer))


def expire(user: User, now: int, silence: int) -> Turn:
    """The user's timer has fired: they have left, or acted meanwhile and get a later timer."""
    due = user.last_ms + silence
    if now >= due:  # Spark fires a timer of this very millisecond, and forgets it
        return Turn((_timeout(user, silence),), None)
    return Turn((), user._replace(timer_ms=due))


def _timeout(user: User, silence: int) -> Output:
    return Output(user.last_ms + silence, "TIMEOUT", user.actions, user.last_action, 0)


def timeout(args: Sequence[str], where: str = "") -> int:
    """Milliseconds of silence after which a user is forgotten, from `timeout=DURATION`. Raises ConfigError."""
    found = DEFAULT_MS
    for arg in args:
        name, _, duration = arg.partition("=")
        try:
            found = round(parse_duration(duration) * 1000) if name == "timeout" else 0
        except ValueError:
            found = 0
        if found <= 0:
            raise ConfigError(
                f"args: {arg!r}",
                expected="timeout=DURATION, such as timeout=5m",
                where=where,
                next_step="correct `args` in the stream's file",
            )
    return found


# Between the logic and Spark.


class Counts(StatefulProcessor):
    """Keeps what is known of each user in the state store."""

    def __init__(self, silence: int) -> None:
        self._silence = silence

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark, once in each task."""
        self._handle = handle
        self._user = handle.getValueState("user", USER)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 (Spark's)
        """Called by Spark with all actions of a user in a batch; within a file they are in their order."""
        added, newest, last_action = 0, (0, ""), ""
        for row in rows:
            added += 1
            place = row.written_ms, row.place
            if place >= newest:
                newest, last_action = place, row.action
        before = self._stored()
        now = timerValues.getCurrentProcessingTimeInMs()
        return self._save(key, before, advance(before, added, last_action, now, self._silence))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Called by Spark after the rows of a batch, for each timer that does not lie after its time."""
        before = self._stored()
        if before is None or before.timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return iter(())  # this very batch has written of the silence, and the user is back
        return self._save(key, before, expire(before, timerValues.getCurrentProcessingTimeInMs(), self._silence))

    def _stored(self) -> User | None:
        # Asked first: Spark writes a line to its log for each get() of a value that is not there.
        value = self._user.get() if self._user.exists() else None
        return None if value is None else User(*value)

    def _save(self, key: Any, before: User | None, turn: Turn) -> Iterator[Row]:
        """Save the new state and return the rows to emit."""
        timer = None if turn.user is None else turn.user.timer_ms
        if before is not None and before.timer_ms != timer:
            self._handle.deleteTimer(before.timer_ms)
        if timer is not None and (before is None or before.timer_ms != timer):
            self._handle.registerTimer(timer)
        if turn.user is None:
            self._user.clear()
        else:
            self._user.update(tuple(turn.user))
        names = "user_id", "at_ms", "status", "count", "last_action", "added"
        return iter([Row(**dict(zip(names, (key[0], *written), strict=True))) for written in turn.written])
