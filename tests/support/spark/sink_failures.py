"""The same damages under every kind of sink, in one real Spark: what becomes of each query, as its driver records it.

`run` is the client; this file run as a script is the program. Each sink's query first reads two files (or a topic) to
their end. Then a copy of its checkpoint is damaged, there is more to read, and it is started once more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SINKS = ("parquet", "kafka", "postgresql", "function", "memory", "noop")
STATE = "spark.sql.streaming.stateStore"
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}


def run(root: Path, *, jars: list[str], servers: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Cause -> sink -> the exit record as JSON."""
    with (root / "spark.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, __file__, json.dumps({"root": str(root), "jars": jars, "servers": servers})],
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=540,
            env={**os.environ, **environment, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )
    assert done.returncode == 0, (root / "spark.log").read_text(errors="replace")[-3000:]
    answer: dict[str, Any] = json.loads((root / "answer.json").read_text())
    return answer


def publish(folder: Path, number: int, lines: list[str]) -> None:
    part = folder / f".{number}"
    part.write_text("\n".join(lines) + "\n")
    os.utime(part, (1_700_000_000 + number,) * 2)
    part.rename(folder / f"{number}.json")


def rows(number: int) -> list[str]:
    return [json.dumps({"id": n, "key": n % 3, "at": f"2026-01-01T00:{number:02d}:{n:02d}Z"}) for n in range(20)]


def lose_state(checkpoint: Path) -> None:
    for path in [*checkpoint.glob("state/0/0/*.changelog"), *checkpoint.glob("state/0/0/*.zip")]:
        path.unlink()


def tear_offsets(checkpoint: Path) -> None:
    found = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    newest = max(found, key=lambda path: int(path.name))
    newest.write_bytes(newest.read_bytes()[:10])
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def unharmed(checkpoint: Path) -> None:
    """Nothing is damaged but the input, or the job."""


class Program:
    def __init__(self, root: Path, servers: str, spark: Any) -> None:
        from streamwarden.spark.driver.foreach_errors import ForeachErrors

        self.root, self.servers, self.spark = root, servers, spark
        self.input = root / "input"
        self.input.mkdir()
        self.raised = ForeachErrors()
        self.raised.watch()

    # What is read

    def counts(self, function: str = "count") -> Any:
        """Of another function the output is of the same types, and the state is not."""
        from pyspark.sql import functions as f

        reader = self.spark.readStream.schema("id BIGINT, key INT, at TIMESTAMP").option("mode", "FAILFAST")
        number = getattr(f, function)("id").cast("bigint")
        return self._counted(reader.json(str(self.input)), "at", f.col("key"), number)

    def spoiled(self) -> Any:
        """The job's own function raises in the batch."""
        from pyspark.sql import functions as f

        def rate(key: int) -> int:
            raise ValueError("no rate for this key")

        reader = self.spark.readStream.schema("id BIGINT, key INT, at TIMESTAMP")
        return self._counted(reader.json(str(self.input)), "at", f.udf(rate, "int")("key").alias("key"))

    def records(self) -> Any:
        from pyspark.sql import functions as f

        options = {"kafka.bootstrap.servers": self.servers, "subscribe": "events", "startingOffsets": "earliest"}
        return self._counted(
            self.spark.readStream.format("kafka").options(**options).load(),
            "timestamp",
            f.col("partition").alias("key"),
        )

    def _counted(self, frame: Any, at: str, key: Any, number: Any = None) -> Any:
        from pyspark.sql import functions as f

        grouped = frame.withWatermark(at, "0 seconds").groupBy(f.window(at, "10 seconds"), key)
        counted = grouped.agg((f.count("*") if number is None else number).alias("n"))
        return counted.withColumn("window", f.col("window.start"))

    # Where it goes

    def start(self, sink: str, name: str, frame: Any, checkpoint: Path) -> Any:
        from streamwarden.sinks.kafka.sink import KafkaSink
        from streamwarden.sinks.parquet import ParquetSink
        from streamwarden.sinks.postgresql.sink import PostgresqlSink
        from streamwarden.spark.sinks import batch_writer, start_query
        from streamwarden.stream.spec import StreamSpec, TriggerSpec

        specs = {
            "parquet": ParquetSink(path=str(self.root / "output" / name)),
            "kafka": KafkaSink(connection="events", topic="counts", key=("window",)),
            "postgresql": PostgresqlSink(connection="warehouse", table=name),
        }
        if sink in specs:
            spec = StreamSpec(
                name=name,
                job=__file__,
                checkpoint=str(checkpoint),
                sink=specs[sink],
                trigger=TriggerSpec(available_now=True),
            )
            return start_query(frame, spec, batch_writer(spec, 1))
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
        if sink == "function":
            output = str(self.root / "written")
            return writer.foreachBatch(lambda batch, _: batch.write.mode("append").parquet(output)).start()
        mode = "complete" if sink == "memory" else "append"
        return writer.format(sink).queryName(name).outputMode(mode).start()

    # What becomes of it

    def end(self, sink: str, name: str, frame: Callable[[], Any], checkpoint: Path) -> dict[str, Any] | None:
        """As the driver of a stream judges it; None: the query came to its end."""
        from dataclasses import asdict

        from streamwarden.lifecycle.failures.exits import failure
        from streamwarden.spark.driver.failures import describe

        try:
            self.start(sink, name, frame(), checkpoint).awaitTermination()
        except Exception as error:
            behind, chain = self.raised.explain(error)
            kind, message = describe(error, __file__, behind)
            return asdict(failure(kind, message, at=0.0, cut_batch=None, built=True, chain=chain))
        return None

    def end_unawaited(self, sink: str, name: str, frame: Any, checkpoint: Path) -> dict[str, Any]:
        """The same where nothing waits for the query, as in a script whose main ends."""
        from dataclasses import asdict

        from streamwarden.lifecycle.failures.exits import failure

        query = self.start(sink, name, frame, checkpoint)
        while query.isActive:
            time.sleep(0.05)
        _, chain = self.raised.explain_query(str(query.runId))
        return asdict(failure(None, "", at=0.0, cut_batch=None, built=True, chain=chain))

    def again(self, sink: str, cause: str, frame: Callable[[], Any], damage: Callable[[Path], None], of: str) -> Any:
        checkpoint = self._copy(f"{of}_{sink}", f"{cause}_{sink}".replace(" ", "_"))
        damage(checkpoint)
        return self.end(sink, f"{of}_{sink}", frame, checkpoint)

    def _copy(self, origin: str, name: str) -> Path:
        return Path(shutil.copytree(self.root / "checkpoints" / origin, self.root / "checkpoints" / name))

    def go(self) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        for number in range(2):
            publish(self.input, number, rows(number))
        answer["nothing"] = self._first("files", self.counts)
        publish(self.input, 2, rows(2))
        causes: list[tuple[str, Callable[[], Any], Callable[[Path], None]]] = [
            ("state lost", self.counts, lose_state),
            ("offsets torn", self.counts, tear_offsets),
            ("state changed", lambda: self.counts("avg"), unharmed),
            ("job raised", self.spoiled, unharmed),
        ]
        for cause, frame, damage in causes:
            answer[cause] = self._all_again(cause, frame, damage, "files")
        answer["state lost, unawaited"] = _side_by_side(("function", "postgresql", "parquet"), self._unawaited)
        publish(self.input, 3, ["{no record"])
        answer["no record"] = self._all_again("no record", self.counts, unharmed, "files")
        return answer

    def _all_again(
        self, cause: str, frame: Callable[[], Any], damage: Callable[[Path], None], of: str
    ) -> dict[str, Any]:
        return _side_by_side(SINKS, lambda sink: self.again(sink, cause, frame, damage, of))

    def _unawaited(self, sink: str) -> Any:
        checkpoint = self._copy(f"files_{sink}", f"unawaited_{sink}")
        lose_state(checkpoint)
        return self.end_unawaited(sink, f"files_{sink}", self.counts(), checkpoint)

    def retention(self) -> dict[str, Any]:
        """Records that no batch has read are removed from the topic."""
        from confluent_kafka import Producer, TopicPartition
        from confluent_kafka.admin import AdminClient

        def produce(count: int) -> None:
            producer = Producer({"bootstrap.servers": self.servers})
            for number in range(count):
                producer.produce("events", str(number))
            producer.flush(30)

        produce(20)
        answer = {"nothing on the topic": self._first("topic", self.records)}
        produce(20)
        admin = AdminClient({"bootstrap.servers": self.servers})
        (done,) = admin.delete_records([TopicPartition("events", 0, 30)]).values()
        done.result(timeout=60)
        return {**answer, "retention passed": self._all_again("retention", self.records, unharmed, "topic")}

    def _first(self, of: str, frame: Callable[[], Any]) -> dict[str, Any]:
        return _side_by_side(SINKS, lambda sink: self.end(sink, f"{of}_{sink}", frame, self._origin(of, sink)))

    def _origin(self, of: str, sink: str) -> Path:
        return self.root / "checkpoints" / f"{of}_{sink}"


def _side_by_side(sinks: Sequence[str], end: Callable[[str], Any]) -> dict[str, Any]:
    """The query of each sink, some at a time: while one is planned, others wait for Python or for a service."""
    with ThreadPoolExecutor(3) as threads:
        return dict(zip(sinks, threads.map(end, sinks), strict=True))


def main(arguments: Mapping[str, Any]) -> None:
    from pyspark.sql import SparkSession

    root = Path(arguments["root"])
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(arguments["jars"]))
    for key, value in {**CONF, "spark.local.dir": str(root / "local")}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    program = Program(root, arguments["servers"], spark)
    answer = {**program.go(), **program.retention()}
    (root / "answer.json").write_text(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
