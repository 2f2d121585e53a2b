"""How long a driver takes from its launch to its first committed batch: with and without the class archive, C1 and C2.

Real drivers (launcher, supervisor process, spark-submit, runner) of a small stateful stream, one after another on an
otherwise idle machine; the four variants take turns, so that a slow minute hits all of them. The end is the commit
file's time.

    python benchmarks/driver_start/run.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching import class_archive
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

JOB = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "key INT, at TIMESTAMP").withWatermark("at", "10 seconds")
    return rows.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("*").alias("n"))
"""
C1 = "-XX:TieredStopAtLevel=1"
VARIANTS = {
    "Spark as it comes": (False, ""),
    "class archive": (True, ""),
    "compiled cheaply (C1)": (False, C1),
    "both": (True, C1),
}


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    if class_archive.find(own(), find_java()) is None:
        print("there is no class archive: run `streamwarden prepare` first", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="driver-start-") as folder:
        taken: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for number in range(rounds):
            for name in VARIANTS:
                taken[name].append(
                    seconds_to_the_first_commit(Path(folder) / str(number) / name.replace(" ", "_"), name)
                )
    print(report(taken))
    return 0


def seconds_to_the_first_commit(root: Path, name: str) -> float:
    """Run one driver to the end of its input."""
    archived, compiler = VARIANTS[name]
    data = root / "var"
    (data / "input").mkdir(parents=True)
    rows = [json.dumps({"key": i % 7, "at": f"2026-01-01T00:00:{i % 60:02d}Z"}) for i in range(1000)]
    (data / "input" / "0.json").write_text("\n".join(rows) + "\n")
    job = root / "job.py"
    job.write_text(JOB)
    spec = StreamSpec(
        name="start",
        job=str(job),
        checkpoint=str(data / "checkpoint"),
        source=FilesSource(path=str(data / "input")),
        sink=ParquetSink(path=str(data / "output")),
        quarantine=str(data / "quarantine"),
        trigger=TriggerSpec(available_now=True),
        state=StateSpec(shuffle_partitions=2),
        spark=SparkSpec(driver_memory=2**30, conf={"spark.driver.extraJavaOptions": compiler} if compiler else {}),
        project=str(root),
    )
    find = class_archive.find
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)
        try:
            if not archived:
                class_archive.find = lambda runs_in, java_home: None
            record = fleet.start(spec, launched_by="benchmark").record
        finally:
            class_archive.find = find
        seen = fleet.wait(record.driver_id, timeout=300)
        if seen.exit is None or seen.exit.kind is not ExitKind.COMPLETED:
            raise SystemExit(f"the driver did not complete: {seen.exit}")
        return (Path(spec.checkpoint) / "commits" / "0").stat().st_mtime - record.launched_at


def report(taken: dict[str, list[float]]) -> str:
    """Markdown: medians, and the median of the ratios within each round."""
    plain = taken["Spark as it comes"]
    lines = ["| launch to first commit | median | least | most | of the first |", "|---|---|---|---|---|"]
    for name, seconds in taken.items():
        ratio = statistics.median(own / other for own, other in zip(seconds, plain, strict=True))
        low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
        lines.append(f"| {name} | {middle:.1f} s | {low:.1f} s | {high:.1f} s | {100 * ratio:.0f} % |")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return "\n".join([*lines, "", f"{len(plain)} rounds; load of a core now: {load:.1f}"])


if __name__ == "__main__":
    sys.exit(main())
