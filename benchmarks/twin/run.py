"""How long a twin takes, compared with the broken fork whose batches it executes again.

Each round is a real drill `kill_driver` of `flight_departures` over 100,000 flights in about 20 batches, whose output a
twin judges alone. The broken fork's time is from the launch of its first driver to the end of its last one: two starts
of Spark, and each batch. The twin's time is the whole comparison: its own fork, one start of Spark, each batch, and
both outputs read back and compared.

    python benchmarks/twin/run.py [--rounds 2] [--records 100000] [--batches 20]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from streamwarden.drills.records.journal import DrillRun
from streamwarden.lifecycle.driver_folder import read_document
from streamwarden.services.replay.replay import replay
from streamwarden.services.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = 40

STREAM = """
name: flights
job: spark_jobs/flight_departures.py
source: {{path: {inputs}, format: json, max_files_per_trigger: 2}}
sink: {{path: output/flights}}
checkpoint: checkpoints/flights
state: {{shuffle_partitions: 2}}
spark: {{master: "local[2]", driver_memory: 1 GB, conf: {conf}}}
"""
DRILL = """
name: drill
stream: flights
fault: {{kind: kill_driver}}
fork: {{batches: {batches}}}
steady_state: {{min_batches: 2, within: 5m}}
recovery: {{target: 8m, deadline: 15m}}
verification: {{min_records: {records}, oracle: twin}}
"""
C1 = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
VARIANTS = {"Spark as it comes": {}, "compiled cheaply (C1)": C1}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one drill.

    Args:
        fork: from the first launch of the broken fork to the end of its last driver.
        twin: the comparison with the twin.
        batches: those of them in which the twin executed batches; batch: their median.
        count: number of batches.
    """

    fork: float
    twin: float
    batches: float
    batch: float
    count: int


def main() -> int:
    """Parse the options, measure, print the table; 1 if a twin took longer than its fork."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--batches", type=int, default=20)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="twin-") as folder:
        inputs = Path(folder) / "input"
        replay(inputs, rows_per_file=-(-given.records // FILES), limit=given.records)
        taken: dict[str, list[Times]] = {name: [] for name in VARIANTS}
        for number in range(given.rounds):
            for at, (name, conf) in enumerate(VARIANTS.items()):
                root = Path(folder) / f"{number}-{at}"
                taken[name].append(measure(root, inputs, conf, given.records, given.batches))
                print(name, taken[name][-1], file=sys.stderr, flush=True)
    print(report(taken))
    return int(any(each.twin > each.fork for times in taken.values() for each in times))


def measure(root: Path, inputs: Path, conf: dict[str, str], records: int, batches: int) -> Times:
    """One drill in a project of its own."""
    jobs = root / "spark_jobs"
    jobs.mkdir(parents=True)
    shutil.copy(REPOSITORY / "spark_jobs" / "flight_departures.py", jobs)
    for kind, name, text in (
        ("streams", "flights", STREAM.format(inputs=inputs, conf=json.dumps(conf))),
        ("drills", "drill", DRILL.format(batches=batches, records=records)),
    ):
        (root / "config" / kind).mkdir(parents=True)
        (root / "config" / kind / f"{name}.yaml").write_text(text)
    with Workspace.open(project=root, data=root / "var") as workspace:
        run = workspace.drill_engine().run("drill")
        if not run.passed:
            raise SystemExit(f"the drill did not pass: {run.reason}")
        return times(workspace, run)


def times(workspace: Workspace, run: DrillRun) -> Times:
    """What the journal, the drivers and the twin's own record say."""
    drivers = workspace.store.drivers.history(run.facts["fork"]["stream"], 0.0)
    ended = max(each.exit.ended_at for each in drivers if each.exit is not None)
    done = read_document(workspace.data / "drills" / run.run_id / "runs" / "1" / "fork" / "program" / "done.json")
    assert done is not None
    seconds = list(done["seconds"].values())
    return Times(
        fork=ended - min(each.launched_at for each in drivers),
        twin=run.facts["twin"]["seconds"],
        batches=sum(seconds),
        batch=statistics.median(seconds),
        count=len(seconds),
    )


def report(taken: dict[str, list[Times]]) -> str:
    """The table, of medians."""
    lines = ["| JVM | broken fork | twin | its batches | one batch | twin/fork |", "|---|---|---|---|---|---|"]
    for name, rounds in taken.items():
        fork, twin, batches, batch = (
            statistics.median(getattr(each, field) for each in rounds) for field in ("fork", "twin", "batches", "batch")
        )
        shown = f"{rounds[0].count} in {batches:.1f} s"
        lines.append(f"| {name} | {fork:.1f} s | {twin:.1f} s | {shown} | {batch:.2f} s | {twin / fork:.2f} |")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return "\n".join([*lines, "", f"{len(next(iter(taken.values())))} rounds; load of a core now: {load:.1f}"])


if __name__ == "__main__":
    sys.exit(main())
