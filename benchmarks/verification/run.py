"""What it costs to verify an output of many rows, compared with reading both sides once.

Both sides are folders of Parquet files with a manifest, as Spark's file sink writes them, with the same rows in another
order: a key of text and an instant, another instant and two whole numbers. Each round is two processes. The first only
reads both sides. The second verifies as a drill with a twin does: it reads both sides, finds out that the key
identifies a row, reconciles the sides by key, and lets Great Expectations judge. It imports Great Expectations before,
as a drill does while its twin executes the batches. The ratios compare the steps of the second process with the reading
of the first. With `--deviations` so many rows of the actual side are lost, duplicated, unexpected and wrong.
`--engines` joins the same rows by DuckDB and by pyarrow alone. `--topic` makes rows of as many records of a topic, each
hundredth of them written twice, without a broker.

    python benchmarks/verification/run.py [--rows 10000000] [--rounds 3] [--deviations 0] [--engines | --topic]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.output import Output

FILES = 40
KEY = ["key", "window_start"]
HOUR = 3_600_000_000
ALONE = "read both sides, nothing else"
IMPORT = "import Great Expectations"
STEPS = ("read both sides", "find the key and reconcile", "judge")


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--deviations", type=int, default=0, help="rows of each kind")
    options.add_argument("--engines", action="store_true", help="compare DuckDB's join with pyarrow's")
    options.add_argument("--topic", action="store_true", help="make rows of the records of a topic")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        print(json.dumps(MEASURES[given.measure](given.folder)))
        return 0
    if given.topic:
        print(records(given.rows))
        return 0
    with tempfile.TemporaryDirectory(prefix="verification-") as scratch:
        folder = Path(scratch)
        publish(folder / "expected", given.rows, seed=1)
        publish(folder / "actual", given.rows, seed=2, deviations=given.deviations)
        if given.engines:
            for name in ("duckdb", "pyarrow"):
                print(f"{name}: {measured(name, folder)}")
            return 0
        rounds = [{**measured("read", folder), **measured("verify", folder)} for _ in range(given.rounds)]
    print("| step | seconds | CPU seconds | peak memory |\n|---|---|---|---|")
    for step in (ALONE, IMPORT, *STEPS):
        seconds, cpu, memory = (statistics.median(each[step][at] for each in rounds) for at in range(3))
        print(f"| {step} | {seconds:.1f} | {cpu:.1f} | {memory:.2f} GB |")
    compared = {
        "reading and reconciling": STEPS[:2],
        "reading, reconciling and the judge": STEPS,
        "reconciling and the judge": STEPS[1:],
    }
    for name, steps in compared.items():
        ratios = [[sum(each[step][at] for step in steps) / each[ALONE][at] for each in rounds] for at in range(2)]
        seconds, cpu = (f"{statistics.median(each):.2f} ({min(each):.2f} … {max(each):.2f})" for each in ratios)
        print(f"{name} / reading both sides: {seconds} by the clock, {cpu} by CPU time")
    print(f"found: {rounds[0]['found']}; {len(rounds)} rounds of {given.rows:,} rows a side")
    print(f"load of a core now: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}")
    return 0


def measured(name: str, folder: Path) -> dict[str, Any]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, "--measure", name, "--folder", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def publish(folder: Path, rows: int, *, seed: int, deviations: int = 0) -> None:
    """The rows in an order that `seed` decides, one file for each batch."""
    manifest = folder / "_spark_metadata"
    manifest.mkdir(parents=True)
    order = np.random.default_rng(seed).permutation(rows)
    first, second = order[:deviations], order[deviations : 2 * deviations]
    order = np.concatenate([order[2 * deviations :], second, second, rows + first])  # `first` is lost
    wrong = set(order[:deviations].tolist())
    for batch in range(FILES):
        file = folder / f"part-{batch:05d}.snappy.parquet"
        pq.write_table(table(order[batch::FILES], rows, wrong), file, use_deprecated_int96_timestamps=True)
        (manifest / str(batch)).write_text("v1\n" + json.dumps({"path": file.as_uri(), "size": 1, "action": "add"}))


def table(ids: npt.NDArray[np.int64], rows: int, wrong: set[int]) -> pa.Table:
    """The rows with these numbers."""
    start = 1_356_998_400_000_000 + ids // 1000 * HOUR
    scattered = pa.array(ids * 7919 % (2 * rows)).cast(pa.string())
    return pa.table(
        {
            "key": pc.binary_join_element_wise("origin", pa.array(ids % 1000).cast(pa.string()), scattered, "-"),
            "window_start": pa.array(start).cast(pa.timestamp("us", tz="UTC")),
            "window_end": pa.array(start + HOUR).cast(pa.timestamp("us", tz="UTC")),
            "flights": pa.array(ids % 97 + np.isin(ids, list(wrong))),
            "delay": pa.array(ids % 1013 - 500),
        }
    )


def read(folder: Path) -> list[Output]:
    """Both sides."""
    return [read_output(folder / name) for name in ("expected", "actual")]


def only_read(folder: Path) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of reading both sides."""
    result: dict[str, Any] = {}
    timed(ALONE, result, lambda: read(folder))
    return result


def verify(folder: Path) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory after each step, and what was found."""
    from streamwarden.services.twins.comparing import compare
    from streamwarden.services.twins.keys import find_key
    from streamwarden.services.verifying.expectations import judge

    result: dict[str, Any] = {}
    timed(IMPORT, result, lambda: import_module("great_expectations.expectations"))
    sides = timed(STEPS[0], result, lambda: read(folder))
    outcome = timed(
        STEPS[1],
        result,
        lambda: compare(sides[0], sides[1], find_key(KEY, (), "", sides[0]), records=1, tolerances={}),
    )
    judged = timed(STEPS[2], result, lambda: judge(replace(outcome, records=1)))
    counts = {kind: getattr(outcome, kind) for kind in ("lost", "duplicated", "unexpected", "wrong")}
    return {**result, "found": {**counts, "accepted": judged.success}}


def records(rows: int) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of making rows of so many records, and what was found."""
    from streamwarden.sinks.kafka.delivery import delivered
    from streamwarden.verification.comparing.events import CommittedRecords, Event, event_id

    def written() -> Iterator[Event]:
        for number in range(rows):
            key = b'{"key":"origin%d","window_start":"2013-01-01T00:00:00.000000Z"}' % number
            value = key[:-1] + b',"flights":%d,"delay":%d}' % (number % 97, number % 1013)
            event = Event(key, value, event_id(key, value), "query", number * FILES // rows)
            yield event
            if number % 100 == 0:
                yield event

    result: dict[str, Any] = {}
    like = {"window_start": datetime.now(UTC)}
    output = timed("records", result, lambda: delivered(written(), CommittedRecords("query", FILES), like))
    return {**result, "rows": output.count, "repeated": output.repeated, "problems": output.problems}


def timed(name: str, into: dict[str, Any], action: Callable[[], Any]) -> Any:
    """What `action` returns."""
    began, cpu = time.perf_counter(), time.process_time()
    made = action()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    into[name] = time.perf_counter() - began, time.process_time() - cpu, memory
    return made


def join_by_duckdb(folder: Path) -> dict[str, Any]:
    """The bare join by DuckDB, with the columns compared."""
    import duckdb

    session = duckdb.connect(config={"memory_limit": "2GB", "temp_directory": str(folder)})
    for name in ("expected", "actual"):
        session.register(name, whole(folder / name))
    result: dict[str, Any] = {}
    same = " AND ".join(f"e.{name} IS NOT DISTINCT FROM a.{name}" for name in ("window_end", "flights", "delay"))
    query = f"SELECT count(*), count(*) FILTER ({same}) FROM expected e FULL JOIN actual a USING ({', '.join(KEY)})"  # noqa: S608
    timed("join", result, lambda: session.execute(query).fetchall())
    return result


def join_by_pyarrow(folder: Path) -> dict[str, Any]:
    """The bare join by pyarrow."""
    expected, actual = whole(folder / "expected"), whole(folder / "actual")
    result: dict[str, Any] = {}
    timed("join", result, lambda: expected.join(actual, KEY, join_type="full outer", right_suffix="_actual"))
    return result


def whole(folder: Path) -> pa.Table:
    """All files as one table."""
    return pa.concat_tables([part.table for part in read_output(folder).parts])


MEASURES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "read": only_read,
    "verify": verify,
    "duckdb": join_by_duckdb,
    "pyarrow": join_by_pyarrow,
}

if __name__ == "__main__":
    sys.exit(main())
