"""A heartbeat of each active session of each device, every thirty seconds, and a last row when the session ended.

    readings  {"device_id": "d-17", "session_id": "s-1", "state": "charging", "event_time": "…"}, lines of files or
              records of a topic
    args      heartbeat=30s  between two heartbeats of a device. Each device has its own grid (multiples of the
                             interval since 1970, moved by a checksum of its id), so that not all beat at once
              inactive=2m    a session silent for longer has ended, at the end of that silence
              time=event     by the events' own time (device_heartbeats_event_time); otherwise by the clock
              late=1m        how late a reading may be, with time=event
              buckets=256    state by bucket of devices, in a processor of the JVM, for millions of sessions (see
                             below); 0: state by device, in Python

    HEARTBEAT at each point of the grid that finds the session active: how many readings until then, and the last state
    END       at the end of the silence, written at the next point of the grid. The same session id then begins again

Why custom state: no native operator writes rows at set times of an open session; `session_window` writes a session
once, when it is closed. So the job uses `transformWithState`, by rows: a device has a handful of readings in a batch.

State, by device_id:
    sessions  map    session_id -> its number, when it began, its last reading (ms), readings, last state
    pending   list   readings since the last point of the grid, each with its time (ms)
    begun     value  how many sessions the device has begun: the next one's number; with `state.ttl` it expires
What bounds it: a session leaves at the first point of the grid after its silence; a reading stays in the list until the
next one (by events' time: until the watermark has passed it). `begun` would stay for each device that there ever was.
With `state.ttl` it expires when no session began for that long; without it is forgotten with the last session. Spark
has a TTL by the clock only: it refuses the stream of events' time at the start, and this job does with a reason.

One timer a device, not one a session: a timer costs a call into Python and a handful of messages between it and the
JVM, and the sessions of a device share them. Measured on two cores (`benchmarks/device_heartbeats/run.py`): a batch
that writes 50,000 sessions of 5,000 devices takes 7.1 s, which is 6,800 a second, or 200,000 sessions in the 30 seconds
from one heartbeat to the next. That is the ceiling of one such driver while readings are rare; with one of each session
in between, 10,000 sessions took 9.1 s, and 33,000 would fill the 30 seconds.
With `buckets` the same state is kept by a Java class of `spark_jobs/processors` (docs/how-to/sessions-at-scale.md): the
key is a group of devices, which share a grid and a timer, and no row of the state goes through Python.

Time is processing time: all readings of a batch come at the moment that it was planned, which Spark writes down first
and gives again when the batch runs again; their order is that of the files (modification, name) and their lines, or of
the records (timestamp, partition, offset): a device's readings belong in one partition, so key them by it. Timers fire
when nothing comes, too: a clock (Spark's `rate` source, whose rows are all left out) runs beside the readings, so that
each trigger has a batch, also after a restart into silence. Heartbeats that an outage has missed are written after
it, each with its own time. A bounded run (`available_now`) reads all its input in one batch, and ends with it.

With time=event nothing depends on when: the same logic runs on the readings' own times, in the order of time (then
session, then state), and a point of the grid is written when the watermark has reached it. While no reading comes,
the watermark does not move, and nothing is written. Readings later than `late` can be dropped, and Spark counts them.

Guarantee, end to end: exactly once. Files or offsets, state with its timers, and the parquet sink's manifest all go by
the batch. Readers must honour that manifest (`_spark_metadata`). The sum of `added` over all rows is the number of
readings that were counted. A reading that was published twice counts twice: it has no id.

Lines or records that do not fit, lack a field that is needed, or (by events' time) lie more than an hour ahead of when
their file or record was written are counted and kept aside in the stream's quarantine.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import crc32, timestamp_millis
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamwarden.errors import ConfigError
from streamwarden.spark.java import through_java
from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec
from streamwarden.units import parse_duration

SCHEMA = "device_id STRING, session_id STRING, state STRING"
SESSION = "number BIGINT, started_ms BIGINT, last_ms BIGINT, readings BIGINT, state STRING"
READING = "at_ms BIGINT, session_id STRING, state STRING"
OUTPUT = """
    device_id STRING, session_id STRING, kind STRING, at_ms BIGINT, number BIGINT, started_ms BIGINT, readings BIGINT,
    added BIGINT, state STRING
"""
DEFAULTS: Final = {"heartbeat": "30s", "inactive": "2m", "time": "processing", "late": "1m", "buckets": "0"}


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """Rows HEARTBEAT and END. Their key: device_id, session_id, at, kind. `added`: readings since the row before."""
    rules = rules_of(spec.args, spec.file)
    remember = _milliseconds_to_remember(spec, rules)
    readings = _by_event(spark, spec, rules) if rules.by_event else _by_clock(spark, spec)
    written = _in_jvm(readings, rules, remember) if rules.buckets else _in_python(readings, rules, remember)
    return written.select(
        "device_id",
        "session_id",
        "kind",
        timestamp_millis("at_ms").alias("at"),
        "number",
        timestamp_millis("started_ms").alias("started_at"),
        "readings",
        "added",
        "state",
    )


def _in_python(readings: DataFrame, rules: Rules, remember: int | None) -> DataFrame:
    mode = "EventTime" if rules.by_event else "ProcessingTime"
    return readings.groupBy("device_id").transformWithState(Heartbeats(rules, remember), OUTPUT, "Append", mode)


def _in_jvm(readings: DataFrame, rules: Rules, remember: int | None) -> DataFrame:
    """The same by the Java class of `spark_jobs/processors`, by bucket of devices."""
    by_bucket = readings.withColumn("bucket", (crc32("device_id") % rules.buckets).cast("int"))
    rest = rules.buckets, rules.heartbeat, rules.inactive, remember or 0, rules.by_event
    return through_java(by_bucket, "streamwarden.sessions.Heartbeats.over", *rest)


def _by_clock(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    if spec.trigger.available_now:  # with timers there is always one batch more to run, and no end
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    columns = "device_id", "session_id", "state", "written_ms", "place"
    readings = read_rows(spark, spec, SCHEMA, required=("device_id", "session_id", "state"), placed=True)
    clock = (
        spark.readStream.format("rate")
        .load()
        .where("value < 0")
        .selectExpr("'' AS device_id", "'' AS session_id", "'' AS state", "value AS written_ms", "'' AS place")
    )
    return readings.select(*columns).union(clock)


def _by_event(spark: SparkSession, spec: StreamSpec, rules: Rules) -> DataFrame:
    return (
        read_rows(
            spark,
            spec,
            f"{SCHEMA}, event_time TIMESTAMP",
            required=("device_id", "session_id", "state", "event_time"),
            not_after={"event_time": timedelta(hours=1)},
        )
        .withWatermark("event_time", f"{rules.late} milliseconds")
        .selectExpr("device_id", "session_id", "state", "event_time", "unix_millis(event_time) AS at_ms")
    )


# The logic, without Spark and without a clock: the same in both modes.


class Rules(NamedTuple):
    """The stream's args. Durations in milliseconds."""

    heartbeat: int
    inactive: int
    by_event: bool
    late: int
    buckets: int


class Reading(NamedTuple):
    """What a device said. `at_ms`: Unix milliseconds, of the reading or of its batch."""

    at_ms: int
    session_id: str
    state: str


class Session(NamedTuple):
    """An active session. Times in Unix milliseconds; `number` counts the sessions of its device."""

    number: int
    started_ms: int
    last_ms: int
    readings: int
    state: str


class Output(NamedTuple):
    """A row to come out: a session as it was at `at_ms`."""

    session_id: str
    kind: str
    at_ms: int
    session: Session
    added: int


class Turn(NamedTuple):
    """What some points of the grid do to a device.

    `readings` are those that lie beyond, `due` the next point; None: nothing is left to wait for.
    """

    written: list[Output]
    sessions: dict[str, Session]
    readings: list[Reading]
    begun: int
    due: int | None


def first_point(at_ms: int, device: str, heartbeat: int) -> int:
    """The first point of the device's grid at or after `at_ms`."""
    return at_ms + (zlib.crc32(device.encode()) - at_ms) % heartbeat


def catch_up(
    device: str,
    sessions: Mapping[str, Session],
    readings: Sequence[Reading],
    begun: int,
    *,
    due: int,
    clock: int,
    rules: Rules,
    remember: bool,
) -> Turn:
    """Every point of the grid from `due` up to `clock`, with all readings until then, in their order.

    Args:
        remember: the number of the device's sessions outlives the last one of them.
    """
    written: list[Output] = []
    active, left = dict(sessions), list(readings)
    point: int | None = due
    while point is not None and point <= clock:  # Spark fires a timer of this very millisecond, and forgets it
        until = [reading for reading in left if reading.at_ms <= point]
        left = [reading for reading in left if reading.at_ms > point]
        said, active, begun = beat(active, until, begun, point, rules.inactive)
        written += said
        if active:
            point = first_point(point + 1, device, rules.heartbeat)
        else:
            begun = begun if remember else 0
            point = first_point(min(left).at_ms, device, rules.heartbeat) if left else None
    return Turn(written, active, left, begun, point)


def beat(
    sessions: Mapping[str, Session], readings: Sequence[Reading], begun: int, at_ms: int, inactive: int
) -> tuple[list[Output], dict[str, Session], int]:
    """One point of the grid: rows, the sessions that are active after it, and how many the device has begun."""
    written: list[Output] = []
    active = dict(sessions)
    added: Counter[str] = Counter()
    for reading in readings:
        name = reading.session_id
        session = active.get(name)
        if session is not None and reading.at_ms > session.last_ms + inactive:
            written.append(Output(name, "END", session.last_ms + inactive, session, added.pop(name, 0)))
            session = None
        if session is None:
            begun += 1
            session = Session(begun, reading.at_ms, reading.at_ms, 0, "")
        active[name] = session._replace(
            last_ms=max(session.last_ms, reading.at_ms), readings=session.readings + 1, state=reading.state
        )
        added[name] += 1
    for name, session in list(active.items()):
        end = session.last_ms + inactive
        if at_ms > end:
            written.append(Output(name, "END", end, active.pop(name), added[name]))
        else:
            written.append(Output(name, "HEARTBEAT", at_ms, session, added[name]))
    return written, active, begun


def may_begin(sessions: Mapping[str, Session], readings: Sequence[Reading], inactive: int) -> bool:
    """Whether one of the readings can begin a session: otherwise their number is not needed."""
    return any(
        (session := sessions.get(reading.session_id)) is None or reading.at_ms > session.last_ms + inactive
        for reading in readings
    )


def rules_of(args: Sequence[str], where: str = "") -> Rules:
    """The rules that `args` (`NAME=VALUE`) say, with the defaults of the rest. Raises ConfigError."""
    given = dict(DEFAULTS)
    for arg in args:
        name, _, value = arg.partition("=")
        if name not in DEFAULTS or not value:
            raise _wrong(arg, where)
        given[name] = value
    if given["time"] not in ("event", "processing"):
        raise _wrong(f"time={given['time']}", where)
    by_event = given["time"] == "event"
    if not by_event and any(arg.startswith("late=") for arg in args):
        raise _wrong(f"late={given['late']}", where)  # by the clock nothing is late
    heartbeat, inactive, late = (_milliseconds(name, given[name], where) for name in ("heartbeat", "inactive", "late"))
    if not given["buckets"].isdigit():
        raise _wrong(f"buckets={given['buckets']}", where)
    return Rules(heartbeat, inactive, by_event, late, int(given["buckets"]))


def _milliseconds(name: str, duration: str, where: str) -> int:
    try:
        found = round(parse_duration(duration) * 1000)
    except ValueError:
        found = 0
    if found <= 0:
        raise _wrong(f"{name}={duration}", where)
    return found


def _wrong(arg: str, where: str) -> ConfigError:
    return ConfigError(
        f"args: {arg!r}",
        expected="heartbeat=DURATION, inactive=DURATION, buckets=NUMBER, time=processing; or time=event, and with it "
        "late=DURATION",
        where=where,
        next_step="correct `args` in the stream's file",
    )


def _milliseconds_to_remember(spec: StreamSpec, rules: Rules) -> int | None:
    if spec.state.ttl is None:
        return None
    if rules.by_event:
        raise ConfigError(
            "state.ttl with time=event",
            expected="no ttl: Spark lets state expire by the clock only",
            where=spec.file,
            next_step="remove `ttl`; what the job keeps of a device then ends with its last session",
        )
    return round(spec.state.ttl * 1000)


# Between the logic and Spark.


class Heartbeats(StatefulProcessor):
    """Keeps the sessions of each device in the state store, and one timer for all of them."""

    def __init__(self, rules: Rules, remember_ms: int | None) -> None:
        self._rules = rules
        self._remember_ms = remember_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark, once in each task."""
        self._handle = handle
        self._sessions = handle.getMapState("sessions", "session_id STRING", SESSION)
        self._pending = handle.getListState("pending", READING)
        self._begun = handle.getValueState("begun", "sessions BIGINT", self._remember_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 (Spark's)
        """Called by Spark with all readings of a device in a batch: they wait for the next point of the grid."""
        if self._rules.by_event:
            readings = [(row.at_ms, row.session_id, row.state) for row in rows]
        else:
            now = timerValues.getCurrentProcessingTimeInMs()
            found = sorted(rows, key=lambda row: (row.written_ms, row.place))  # lines stay in their order
            readings = [(now, row.session_id, row.state) for row in found]
        self._pending.appendList(readings)
        due = first_point(min(at_ms for at_ms, _, _ in readings), key[0], self._rules.heartbeat)
        timers = list(self._handle.listTimers())
        if not timers or due < timers[0]:
            for timer in timers:  # an older reading came later than the first one
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(due)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Called by Spark after the rows of a batch, for each device whose next point the clock has reached."""
        device: str = key[0]
        rules = self._rules
        clock = timerValues.getCurrentWatermarkInMs if rules.by_event else timerValues.getCurrentProcessingTimeInMs
        readings = [Reading(*value) for value in self._pending.get()]
        if rules.by_event:
            readings.sort()  # they came in any order
        sessions = {name[0]: Session(*value) for name, value in self._sessions.iterator()}
        asked = may_begin(sessions, readings, rules.inactive) and self._begun.exists()
        value = self._begun.get() if asked else None
        begun = 0 if value is None else value[0]
        turn = catch_up(
            device,
            sessions,
            readings,
            begun,
            due=expiredTimerInfo.getExpiryTimeInMs(),
            clock=clock(),
            rules=rules,
            remember=self._remember_ms is not None,
        )
        self._keep(sessions, readings, begun, turn)
        return (_row(device, written) for written in turn.written)

    def _keep(self, before: Mapping[str, Session], readings: Sequence[Reading], begun: int, turn: Turn) -> None:
        """Write what the turn changed."""
        for name, session in turn.sessions.items():
            if before.get(name) != session:
                self._sessions.updateValue((name,), tuple(session))
        for name in before.keys() - turn.sessions.keys():
            self._sessions.removeKey((name,))
        if turn.readings and len(turn.readings) < len(readings):
            self._pending.put([tuple(reading) for reading in turn.readings])
        elif readings and not turn.readings:
            self._pending.clear()
        if self._remember_ms is None and not turn.sessions:
            self._begun.clear()
        elif turn.begun != begun:  # each update puts the expiry off
            self._begun.update((turn.begun,))
        if turn.due is not None:
            self._handle.registerTimer(turn.due)


def _row(device: str, written: Output) -> Row:
    session = written.session
    return Row(
        device_id=device,
        session_id=written.session_id,
        kind=written.kind,
        at_ms=written.at_ms,
        number=session.number,
        started_ms=session.started_ms,
        readings=session.readings,
        added=written.added,
        state=session.state,
    )
