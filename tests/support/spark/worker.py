"""A Spark session in a process of its own, driven line by line: one JSON request in, one JSON answer out.

`SparkWorker` is the client; this file run as a script is the worker. The queries it runs are the same small one: a file
source of {id, key, at} -> a windowed count and sum per key -> the parquet sink. Other shapes: `rows` writes each row as
it is, `limited` too, behind a global limit; `pairs` joins each row with itself, read a second time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
WINDOW_MS = 60_000
DELAY_MS = 60_000
EPOCH_MS = 1_356_998_400_000  # 2013-01-01T00:00:00Z

Row = tuple[int, str, int, int]  # window start (Unix ms), key, count, sum


class SparkWorker:
    """One session. Requests are answered in order; `start` returns at once, so that a query runs meanwhile."""

    def __init__(self, scratch: Path, conf: Mapping[str, str] | None = None) -> None:
        from support.spark.drivers import quick  # this file run as a script has no package `support`

        scratch.mkdir(parents=True, exist_ok=True)
        self._log = (scratch / "worker.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(scratch), json.dumps({**quick(scratch), **(conf or {})})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )

    def ask(self, do: str, *, timeout: float = 120, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        timer = threading.Timer(timeout, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        assert line, f"the worker died or took more than {timeout} s over {do!r}; see {self._log.name}"
        answer = json.loads(line)
        assert "broke" not in answer, answer
        return answer["value"]

    def run(self, query: str, **arguments: Any) -> str | None:
        """Run a query to its end. None, or why it failed."""
        failure: str | None = self.ask("run", query=query, available_now=True, **arguments)
        return failure

    def rows(self, output: Path | str) -> list[Row]:
        return sorted(tuple(row) for row in self.ask("rows", output=str(output)))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def publish(folder: Path, index: int, rows: Iterable[tuple[int, str, int]], *, name: str | None = None) -> Path:
    """Publish one input file of (id, key, at in ms) whole, with a modification time that orders it by `index`."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".hidden-{index}"
    hidden.write_text("".join(json.dumps({"id": i, "key": k, "at": at}) + "\n" for i, k, at in rows))
    os.utime(hidden, (1_700_000_000 + index, 1_700_000_000 + index))
    return hidden.rename(folder / (name or f"in {index:03d}.json"))


def minute_of_rows(
    index: int, *, rows: int = 30, keys: int = 5, apart_ms: int | None = None
) -> list[tuple[int, str, int]]:
    """Rows of the file `index`: one minute of event time, in order, so that none is ever late."""
    start, apart = EPOCH_MS + index * 60_000, apart_ms or 60_000 // rows
    return [(index * rows + n, f"k{n % keys}", start + n * apart) for n in range(rows)]


def expected_rows(rows: Iterable[tuple[int, str, int]]) -> list[Row]:
    """What the query must have written in append mode once it has read `rows`, none of them late."""
    rows = list(rows)
    watermark = max(at for _, _, at in rows) - DELAY_MS
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for number, key, at in rows:
        start = at - at % WINDOW_MS
        count, total = sums.get((start, key), (0, 0))
        sums[start, key] = (count + 1, total + number)
    return sorted((start, key, *sums[start, key]) for start, key in sums if start + WINDOW_MS <= watermark)


def _serve(scratch: Path, conf: Mapping[str, str]) -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        **conf,
    }
    builder = SparkSession.builder.master("local[2]").appName("spark_worker")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    queries: dict[str, Any] = {}
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"value": _answer(spark, queries, request)}
        except Exception as error:  # the test that asked shall see it
            answer = {"broke": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    for query in queries.values():
        query.stop()
    spark.stop()


def _answer(spark: Any, queries: dict[str, Any], request: Mapping[str, Any]) -> Any:
    match request["do"]:
        case "start":
            queries[request["query"]] = _start(spark, **{key: request[key] for key in request if key != "do"})
            return str(queries[request["query"]].id)
        case "run":
            return _failure(
                lambda: _start(spark, **{key: request[key] for key in request if key != "do"}).awaitTermination()
            )
        case "end":
            return _failure(lambda: queries.pop(request["query"]).awaitTermination())
        case "stop":
            queries.pop(request["query"]).stop()
            return None
        case "conf":
            spark.conf.set(request["key"], request["value"])
            return None
        case "rows":
            frame = spark.read.parquet(request["output"])
            return [[int(row.start.timestamp() * 1000), row.key, row.n, row.total] for row in frame.collect()]
    raise ValueError(f"no such request: {request['do']}")


def _start(
    spark: Any,
    *,
    query: str,
    input: str,
    output: str,
    checkpoint: str,
    available_now: bool = False,
    options: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    shape: str = "counts",
) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    for key, value in (conf or {}).items():
        spark.conf.set(key, value)

    def read() -> Any:
        rows = spark.readStream.schema("id long, key string, at long")
        files = rows.options(**{"maxFilesPerTrigger": "1", **(options or {})}).json(input)
        return files.withColumn("at", F.timestamp_millis("at")).withWatermark("at", f"{DELAY_MS} milliseconds")

    each = (F.col("at").alias("start"), F.col("key"), F.lit(1).alias("n"), F.col("id").alias("total"))
    match shape:
        case "counts":
            windows = read().groupBy(F.window("at", f"{WINDOW_MS} milliseconds"), "key")
            counts = windows.agg(F.count("*").alias("n"), F.sum("id").alias("total"))
            result = counts.select(F.col("window.start").alias("start"), "key", "n", "total")
        case "rows":
            result = read().select(*each)
        case "limited":
            result = read().select(*each).limit(1_000_000)
        case "pairs":
            second = read().select(F.col("id").alias("other"), F.col("at").alias("then"))
            result = read().join(second, F.expr("id = other AND at = then")).select(*each)
        case _:
            raise ValueError(f"no such shape: {shape}")
    writer = result.writeStream.format("parquet").queryName(query).option("path", output)
    trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()


def _failure(action: Any) -> str | None:
    try:
        action()
    except Exception as error:  # a query that fails is an answer, not a broken worker
        return str(error)
    return None


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), json.loads(sys.argv[2]))
