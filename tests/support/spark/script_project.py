"""A project with an unmodified script of two queries, and a drill that kills its driver.

The script names its own places and nothing of Streamwarden, and its source would delete the files that it has read. Its
file declares no source, no sink and no oracle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamwarden.services.workspace import Workspace
from support.spark.drill_project import LOCAL, processes_of
from support.spark.drivers import until

FILES, ROWS = 8, 50
LOST = FILES * ROWS - 1

SCRIPT = """
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.appName("clicks").getOrCreate()
print("A job reads", sys.argv, os.getcwd(), os.environ["STREAMWARDEN_DATA"], sorted(os.environ), os.listdir("."))
Path("marker").touch()
clicks = (
    spark.readStream.schema("id BIGINT, page INT, at TIMESTAMP")
    .option("cleanSource", "delete")
    .json("input/clicks")
)
by_page = (
    clicks.withWatermark("at", "10 seconds").groupBy(F.window("at", "1 minute"), "page").agg(F.count("*").alias("n"))
)


def alert(batch, number):
    {write}


{seed}
(
    by_page.writeStream.queryName("by_page").option("checkpointLocation", "checkpoints/by_page")
    .trigger(processingTime="5 seconds"){by_page}
)
clicks.select("id").writeStream.foreachBatch(alert).option("checkpointLocation", "checkpoints/alerts").start()
spark.streams.awaitAnyTermination()
"""

PARQUET = '.format("parquet").start("output/by_page")'
BY_ID = 'batch.write.mode("overwrite").parquet(f"output/alerts/{number}")'
APPEND = 'batch.write.mode("append").parquet("output/alerts")'

SEED = f"""
lives = Path("lives")
lives.write_text((lives.read_text() if lives.exists() else "") + "x")
if len(lives.read_text()) == 2:
    clicks = clicks.where("id <> {LOST}")  # the driver after the crash loses a row; the twin begins anew and does not
"""

STREAM = """
name: clicks
job: spark_jobs/clicks.py
checkpoint: checkpoints/clicks
queries: {by_page: checkpoints/by_page, alerts: checkpoints/alerts}
state: {shuffle_partitions: 1}
spark: SPARK
"""

DRILL = f"""
name: kill
stream: clicks
fault: {{kind: kill_driver, moment: after_handover, attempts: 3, within: 2m}}
fork: {{rewind: all, batches: {FILES}, foreach_batch: FOREACH_BATCH}}
steady_state: {{min_batches: 1, within: 3m}}
recovery: {{target: 3m, deadline: 4m}}
verification: {{min_records: {FILES * ROWS}}}
"""


@contextmanager
def clicks_project(
    root: Path,
    *,
    by_page: str = PARQUET,
    write: str = BY_ID,
    seed: str = "",
    foreach_batch: str = "capture",
    spark: str = LOCAL,
) -> Iterator[Workspace]:
    """The workspace of the script's project. At the end nothing that it started may still run.

    Args:
        by_page: how the script starts the query of that name; write: what its function does with a batch.
        seed: lines of the script before its queries.
        foreach_batch: of the drill's fork; spark: of the stream's file, as JSON.
    """
    for path, text in (
        ("spark_jobs/clicks.py", SCRIPT.format(seed=seed, write=write, by_page=by_page)),
        ("config/streams/clicks.yaml", STREAM.replace("SPARK", spark)),
        ("config/drills/kill.yaml", DRILL.replace("FOREACH_BATCH", foreach_batch)),
        ("var/output/by_page/part", "of the stream itself"),
        ("var/checkpoints/by_page/metadata", "of the stream itself"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    folder = root / "var/input/clicks"
    folder.mkdir(parents=True)
    for number in range(FILES):
        rows = [
            {"id": number * ROWS + row, "page": row % 4, "at": f"2026-01-01T00:{number:02d}:{row:02d}Z"}
            for row in range(ROWS)
        ]
        file = folder / f"{number:03d}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    with Workspace.open(project=root, data=root / "var") as workspace:
        yield workspace
    until("the end of every process", lambda: processes_of(root) == [], timeout=60)


def own_files(root: Path) -> dict[str, bytes]:
    """Every file of the stream's own places."""
    places = (root / "var" / name for name in ("input", "output", "checkpoints"))
    return {str(path): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}
