"""A stream is upgraded under load, by the command line, with real drivers. A producer publishes files all the time.

1. A version that Spark refuses is refused on a fork: the driver goes on, and nothing of the project has changed.
2. A version that changes nothing of the output is switched to: the same query goes on.
3. A version that works on forks and fails in production is taken back.
4. A version that counts otherwise is refused, and switched to when it is accepted. Its upgrade is killed while it
   watches, and completed by the next command.
5. A version that counts otherwise again runs beside the old one, is refused, and is switched to when it is accepted:
   no window is counted in both ways.

In the end every row was counted once: those of the last versions in their own way.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.sinks.files.output import read_output
from support.command_line import Answer, in_process, in_shell
from support.spark.drivers import COUNTS, Project, producing, project, until

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1500)]

STREAM = """
# What is counted.
name: counts
job: jobs/counts.py   # the version in force
source: {path: input, max_files_per_trigger: 4}
sink: {path: output/counts}
checkpoint: checkpoints/counts
trigger: {processing_time: 2 s}
state: {shuffle_partitions: 1}
restart: {initial: 1s}
health: {thresholds: {batch_longer_than_trigger: {warning: 1000, critical: 2000}}}   # what a busy machine may take
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""

COUNT = 'F.count("*").alias("n")'
VERSIONS = {
    "refused": (COUNT, f'{COUNT}, F.sum("id").alias("total")'),
    "same": (".groupBy(", '.where("key >= 0").groupBy('),
    "fails": ("    events = ", "    assert '__fork' in spec.name, 'no production'\n    events = "),
    "double": (COUNT, 'F.sum(F.lit(2)).alias("n")'),
    "triple": (COUNT, 'F.sum(F.lit(3)).alias("n")'),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("upgrades")) as made:
        made.job("counts", COUNTS)
        for name, (old, new) in VERSIONS.items():
            assert old in COUNTS
            made.job(name, COUNTS.replace(old, new))
        (made.root / "config/streams").mkdir(parents=True)
        (made.root / "config/streams/counts.yaml").write_text(STREAM)
        with producing(made, every=0.5):
            yield made


def upgrade(world: Project, name: str, *more: str) -> Answer:
    watch = ("--watch", "5s", "--batches", "3")
    return in_shell(world.root, "upgrade", "counts", "--job", f"jobs/{name}.py", *watch, *more, timeout=600)


def text(world: Project) -> str:
    return (world.root / "config/streams/counts.yaml").read_text()


def committed(world: Project) -> int:
    return log_position(open_path(str(world.data / "checkpoints/counts"))).committed or 0


def test_upgrades_under_load(world: Project) -> None:
    assert in_shell(world.root, "start", "counts").code == 0
    until("some batches", lambda: committed(world) >= 4)
    driver = world.store.drivers.latest("counts")
    assert driver is not None

    refused = upgrade(world, "refused")
    assert refused.code == 1, refused
    assert "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in refused.out
    assert "nothing was changed" in refused.out
    assert text(world) == STREAM
    now = world.store.drivers.latest("counts")
    assert now is not None
    assert (now.driver_id, now.exit) == (driver.driver_id, None), "it went on meanwhile"
    assert in_process(world.root, "savepoint", "list", "counts", "--json").json == []

    same = upgrade(world, "same")
    assert same.code == 0, same
    assert text(world) == STREAM.replace("jobs/counts.py", "jobs/same.py")
    (saved,) = in_process(world.root, "savepoint", "list", "counts", "--json").json
    until("batches of the new version", lambda: committed(world) > saved["batch"] + 2)

    fails = upgrade(world, "fails")
    assert fails.code == 1, fails
    assert "runs" in fails.out
    assert "no production" in fails.out
    assert text(world) == STREAM.replace("jobs/counts.py", "jobs/same.py")
    at = committed(world)
    until("batches of the version before", lambda: committed(world) > at + 2)

    other = upgrade(world, "double")
    assert other.code == 1, other
    assert "with other values" in other.out
    command = [sys.executable, "-m", "streamwarden.cli", "upgrade", "counts", "--job", "jobs/double.py"]
    options = ["--accept-difference", "--watch", "10m", "--batches", "3"]
    process = subprocess.Popen([*command, *options], cwd=world.root, stdout=subprocess.DEVNULL)
    journals = world.data / "upgrades/counts"

    def swapped() -> bool:
        found = [json.loads(path.read_text()) for path in journals.glob("*/upgrade.json")]
        return any(each["step"] == "swapped" and each["swapped_at"] is not None for each in found)

    until("the swap", swapped, timeout=600)
    process.send_signal(signal.SIGKILL)
    process.wait()
    waits = upgrade(world, "same")
    assert waits.code == 1
    assert "was interrupted" in waits.err
    for path in journals.glob("*/upgrade.json"):
        journal = json.loads(path.read_text())
        path.write_text(json.dumps(journal | {"watch": 1.0}))
    resumed = in_shell(world.root, "upgrade", "counts", timeout=600)
    assert resumed.code == 0, resumed
    assert text(world) == STREAM.replace("jobs/counts.py", "jobs/double.py")
    before_double = windows_before_the_switch(world)
    at = committed(world)
    until("batches of that version", lambda: committed(world) > at + 2)

    triple = upgrade(world, "triple", "--accept-difference", "--beside", "20s")
    assert triple.code == 0, triple
    assert "beside: batch" in triple.out
    before_triple = windows_before_the_switch(world)
    at = committed(world)
    until("batches of the last version", lambda: committed(world) > at + 5)
    assert in_shell(world.root, "stop", "counts").code == 0
    assert_every_row_was_counted(world, before_double, before_triple)


def windows_before_the_switch(world: Project) -> set[str]:
    """The windows that were written before the newest savepoint."""
    saved = in_process(world.root, "savepoint", "list", "counts", "--json").json[0]
    manifest = read_sink_manifest(open_path(str(world.data / "output/counts")), saved["batch"])
    assert manifest is not None
    return {start(value) for file in manifest.files for value in pq.read_table(file.path)["window"].to_pylist()}


def assert_every_row_was_counted(world: Project, first: set[str], second: set[str]) -> None:
    """By the input files alone: each window of `first` has each of its rows once; later each row that the next version
    saw counts twice; and each window that is not in `second` has all of its rows three times, because the last version
    had counted it from its beginning."""
    found = read_output(world.data / "output/counts")
    assert found.problems == ()
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    windows = Counter((str(row["window"]), row["key"]) for row in rows)
    assert set(windows.values()) == {1}, "no window was written twice"
    sent: Counter[tuple[str, int]] = Counter()
    for path in sorted((world.data / "input").glob("*.json")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            sent[row["at"][:18], row["key"]] += 1  # the ten seconds of its window
    counted: dict[tuple[str, Any], Any] = {(start(row["window"]), row["key"]): row["n"] for row in rows}
    newest = max(window for window, _ in counted)
    expected = {key: count for key, count in sent.items() if key[0] <= newest}
    assert counted.keys() == expected.keys(), "no window is missing"
    assert {window for window, _ in counted} > second > first
    assert all(n == expected[key] for key, n in counted.items() if key[0] in first)
    odd = {key[0] for key, n in counted.items() if key[0] in second - first and n != 2 * expected[key]}
    assert len(odd) <= 10, "those that were open at that switch: two of each file of a batch, and of the file before"
    assert all(n == 3 * expected[key] for key, n in counted.items() if key[0] not in second)


def start(window: object) -> str:
    """`2026-01-01T00:01:2`: the window's start, to ten seconds."""
    assert isinstance(window, dict)
    return f"{window['start']:%Y-%m-%dT%H:%M:%S}"[:18]
