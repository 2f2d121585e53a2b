"""Queries over rows of {id, key, at}, one for each operator that keeps state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def counted(rows: Any) -> Any:
    """An aggregation whose one window stays open."""
    from pyspark.sql import functions as f

    return rows.groupBy(f.window("at", "1 day"), "key").agg(f.count("*").alias("n"), f.sum("id").alias("total"))


def distinct(rows: Any) -> Any:
    return rows.select("key").dropDuplicates(["key"])


def distinct_within(rows: Any) -> Any:
    return rows.dropDuplicatesWithinWatermark(["id"])


def joined(rows: Any) -> Any:
    from pyspark.sql import functions as f

    other = rows.select(f.col("id").alias("other"), f.col("at").alias("then"))
    return rows.join(other, f.expr("id = other AND then BETWEEN at - INTERVAL 1 DAY AND at + INTERVAL 1 DAY"))


def in_sessions(rows: Any) -> Any:
    from pyspark.sql import functions as f

    return rows.groupBy(f.session_window("at", "1 day"), "key").agg(f.count("*").alias("n"))


def in_pandas(rows: Any) -> Any:
    """A count and a text for each key, with a timeout of an hour of event time."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    def add(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        count, text = state.get if state.exists else (0, "")
        latest = 0
        for frame in frames:
            count, text = count + len(frame), text + "x" * len(frame)
            latest = max(latest, int(frame["at"].max().timestamp() * 1000))
        state.update((count, text))
        state.setTimeoutTimestamp(latest + 3_600_000)
        yield pd.DataFrame({"key": [key[0]], "n": [count]})

    grouped = rows.groupBy("key")
    return grouped.applyInPandasWithState(
        add, "key string, n long", "n long, text string", "append", GroupStateTimeout.EventTimeTimeout
    )


def counting() -> Any:
    """A processor with a value: the count of a key's rows, which it also gives out."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            count = (self._count.get()[0] if self._count.exists() else 0) + len(list(rows))
            self._count.update((count,))
            yield Row(key=key[0], n=count)

        def close(self) -> None:
            pass

    return Counting()


def in_processor(rows: Any) -> Any:
    grouped = rows.groupBy("key")
    return grouped.transformWithState(counting(), "key string, n long", "Append", "None")


def joined_by_key(rows: Any, again: Any) -> Any:
    """Each row with each row of its key, or alone when none came in a day. again: the same input, once more."""
    from pyspark.sql import functions as f

    other = again.select(f.col("key").alias("other"), f.col("id").alias("with"), f.col("at").alias("then"))
    near = f.expr("key = other AND then BETWEEN at - INTERVAL 1 DAY AND at + INTERVAL 1 DAY")
    return rows.join(other, near, "left_outer").select("key", "id", "with")


def in_sessions_without_duplicates(rows: Any) -> Any:
    """Two operators."""
    return in_sessions(distinct_within(rows))


def keeping() -> Any:
    """A processor with each kind of variable, with and without a time to live, and a timer a batch and key. Of k0 alone
    it keeps two more. It gives out its values."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    hour = 3_600_000

    class Keeping(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._count = handle.getValueState("count", "n long", ttlDurationMs=hour)
            self._plain = handle.getValueState("plain", "n long")
            self._rare = handle.getValueState("rare", "n long, text string")
            self._brief = handle.getValueState("brief", "n long", ttlDurationMs=hour)
            self._ids = handle.getListState("ids", "id long")
            self._late = handle.getListState("late", "id long", ttlDurationMs=hour)
            self._last = handle.getMapState("last", "rest int", "id long")
            self._short = handle.getMapState("short", "rest int", "id long", ttlDurationMs=hour)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            for row in rows:
                for count in (self._count, self._plain):
                    count.update(((count.get()[0] if count.exists() else 0) + 1,))
                for ids in (self._ids, self._late):
                    ids.appendValue((row.id,))
                for last in (self._last, self._short):
                    last.updateValue((row.id % 7,), (row.id,))
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + hour)
            if key[0] == "k0":
                self._rare.update((1, "one"))
                self._brief.update((1,))
            rare = self._rare.get()[1] if self._rare.exists() else None
            yield Row(key=key[0], n=self._plain.get()[0], counted=self._count.get()[0], rare=rare)

        def close(self) -> None:
            pass

    return Keeping()


def in_every_variable(rows: Any) -> Any:
    columns = "key string, n long, counted long, rare string"
    return rows.groupBy("key").transformWithState(keeping(), columns, "Append", "ProcessingTime")


def distinct_within_by_key(rows: Any) -> Any:
    return rows.select("key", "at").dropDuplicatesWithinWatermark(["key"])
