"""How fast pages and API answer over a large fleet, and whether that disturbs the drivers' writes.

    python benchmarks/pages/run.py [--streams 1000] [--rows 10000000] [--requests 100] [--postgresql URL]

Builds a project of `--streams` streams with `--rows` rows of batches over seven days, as many rows of state operators,
Spark's report of each batch (whole for 600 of a stream, times alone for the others, which saves 20 GB), a verdict of
every check, and for one stream in twenty the roll-ups of the 83 days before, in an embedded store, or in the empty
PostgreSQL database that the URL names. Serves the plugin's app as Airflow does, asks for each address `--requests`
times, one after the other, and prints the times. The pages are also opened in Chromium. Meanwhile a writer stores a
report every 50 ms, as drivers do, and all streams are evaluated again and again; their times are compared with those
while nobody asks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import sqlalchemy as sa

from streamwarden.adapters.processes import identity
from streamwarden.adapters.store import Store
from streamwarden.adapters.store.tables import batches, hourly, measurements, state_operators
from streamwarden.health.checks import CHECKS
from streamwarden.health.signals.series import BACKLOG_SECONDS, STATE_BYTES
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.progress import parse_progress
from streamwarden.services.overview.rolled import NAMES
from streamwarden.services.workspace import STORE_VARIABLE, Workspace
from streamwarden.units import HOUR

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.projects import small_streams

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TEMPLATE: Final = REPOSITORY / "tests/data/health/spark-4.3.0-rocksdb.jsonl"
DAYS: Final = 6.9
CHUNK: Final = 20_000
QUARTER: Final = 90
"""Days of the longest range of a chart."""
DOWN: Final = 20
"""One stream in this many is down."""
OLD: Final = 20
"""One stream in this many, the one that is asked for among them, has run for `QUARTER` days."""
API_GOAL: Final = 0.100
PAINTS: Final = {"/": 1.0, "/streams/stream_0001": 1.5}
"""Page -> seconds until its first paint at most."""
WRITES: Final = 0.05


def main() -> int:
    """Parse the options, build, measure, print."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--streams", type=int, default=1000)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--requests", type=int, default=100)
    options.add_argument("--postgresql", default=None, metavar="URL")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="streamwarden-benchmark-", ignore_cleanup_errors=True) as folder:
        space = build(Path(folder), given.streams, given.rows, given.postgresql)
        quiet = written(space, 10.0)
        evaluated(space)  # the first evaluation has more to do: it opens the incidents
        alone = [evaluated(space)]
        with serving(space) as (base, headers), ThreadPoolExecutor(2) as beside:
            done = threading.Event()
            writes = beside.submit(written, space, 0.0, until=done)
            rounds = beside.submit(evaluations, space, done)
            try:
                rows = asked(base, headers, given.requests)
                paints = painted(base, headers)
            finally:
                done.set()
            report(rows, paints, {"nobody asks": quiet, "pages are asked for": writes.result()})
            report_rounds({"nobody asks": alone, "pages are asked for": rounds.result()})
    return 0


def opened(root: Path, streams: int, url: str | None = None) -> Workspace:
    """A new project with so many streams, and its empty store: a SQLite file, unless `url` names another."""
    project = root / "project"
    small_streams(project, streams)
    return Workspace.open(project, root / "data", url, environ={})


def build(root: Path, streams: int, rows: int, url: str | None) -> Workspace:
    """The project and its filled store."""
    space = opened(root, streams, url)
    now = time.time()
    began = time.monotonic()
    for number in range(streams):
        fill(space.store, f"stream_{number:04}", number, rows // streams, now)
        if number % OLD == 1:
            roll_ups(space.store, f"stream_{number:04}", now)
    space.store.prune(now)
    judge(space.store, streams)
    print(f"built in {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return space


def fill(store: Store, name: str, number: int, count: int, now: float) -> None:
    """One stream's rows: batches over `DAYS`, two measurements every quarter of an hour, its drivers."""
    step = DAYS * 86400 / count
    raw: dict[str, Any] = json.loads(TEMPLATE.read_text().splitlines()[5])
    text = json.dumps(raw)
    short = json.dumps({key: raw[key] for key in ("id", "runId", "timestamp", "batchId", "durationMs")})
    made: list[dict[str, Any]] = []
    of_state: list[dict[str, Any]] = []
    for batch in range(count):
        at = now - step * (count - batch)
        whole = count - batch <= 300 or batch % max(1, count // 300) == 0
        made.append({**batch_row(name, batch, at), "progress": _at(raw, text if whole else short, batch, at)})
        of_state.append({"stream": name, "query_id": "q", "batch_id": batch, **_OPERATOR})
    insert(store, batches, made)
    insert(store, state_operators, of_state)
    measured = [
        {
            "stream": name,
            "at": now - 900 * n,
            "name": what,
            "source": "check",
            "value": 1e8 + 1e5 * (700 - n),
            "unit": unit,
        }
        for n in range(int(DAYS * 96))
        for what, unit in ((STATE_BYTES, "bytes"), (BACKLOG_SECONDS, "seconds"))
    ]
    insert(store, measurements, measured)
    end = ExitRecord(kind=ExitKind.KILLED, ended_at=now, signal=9) if number % DOWN == 0 else None
    launched(store, name, os.getpid(), now - DAYS * 86400, end)


def launched(store: Store, stream: str, pid: int, at: float, end: ExitRecord | None = None) -> None:
    """Record the stream's driver, for which a process of this host stands."""
    store.drivers.launched(
        DriverRecord(
            driver_id=f"{stream}-1",
            stream=stream,
            checkpoint=f"/data/{stream}",
            token=1,
            folder="/data",
            process=identity(pid),
            launched_by="benchmark",
            launched_at=at,
            started_at=at,
            exit=end,
        )
    )


def batch_row(stream: str, batch: int, at: float, rows: int = 5000, milliseconds: int = 900) -> dict[str, Any]:
    """A batch as the store has it, without its report."""
    return {
        "stream": stream,
        "query_id": "q",
        "batch_id": batch,
        "at": at,
        "planned_at": at,
        "committed_at": at + 1,
        "started_at": at,
        "executed": True,
        "rows": rows,
        "duration_ms": milliseconds,
        "malformed": 0,
        "watermark": at - 60,
        "origin": "progress",
        "run_id": "r",
    }


def roll_ups(store: Store, name: str, now: float) -> None:
    """The roll-ups of one stream, of the days whose batches are not kept any more."""
    newest = int((now - 7 * 86400) // HOUR) * HOUR - HOUR
    given = {
        "stream": name,
        "source": "a benchmark",
        "unit": "1",
        "samples": 60,
        "total": 6e4,
        "least": 1,
        "most": 2000,
    }
    hours = range(newest, newest - (QUARTER - 7) * 86400, -HOUR)
    insert(
        store, hourly, [{**given, "hour": hour, "name": what} for hour in hours for what in (*NAMES, BACKLOG_SECONDS)]
    )


def judge(store: Store, streams: int) -> None:
    """A verdict of every check on every stream: the newest evaluation."""
    now = time.time()
    store.verdicts.save(
        Verdict(
            stream=f"stream_{number:04}",
            check=check.name,
            status=Status.OK,
            at=now,
            value=1.0,
            unit=check.unit.value,
            reason="fine",
        )
        for number in range(streams)
        for check in CHECKS
    )


def insert(store: Store, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows past the repositories, which would merge and roll up each."""
    for begin in range(0, len(rows), CHUNK):
        some = rows[begin : begin + CHUNK]
        store._database.write(partial(sa.Connection.execute, statement=table.insert(), parameters=some))


_OPERATOR: Final = {
    "operator": 0,
    "name": "stateStoreSave",
    "rows_total": 1000,
    "rows_updated": 500,
    "rows_removed": 10,
    "rows_dropped": 0,
    "memory_bytes": 10**6,
    "sst_bytes": 10**8,
    "update_ms": 100,
    "removal_ms": 10,
    "commit_ms": 200,
    "partitions": 4,
}


def _at(raw: dict[str, Any], text: str, batch: int, at: float) -> str:
    """Spark's report of this batch."""
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return text.replace(raw["timestamp"], when, 1).replace(f'"batchId": {raw["batchId"]}', f'"batchId": {batch}', 1)


def written(space: Workspace, seconds: float, until: threading.Event | None = None) -> list[float]:
    """Seconds of each write of a report, one every 50 ms, for `seconds` or until the event."""
    report = parse_progress(json.loads(TEMPLATE.read_text().splitlines()[5]))
    took, end, number = [], time.monotonic() + seconds, 0
    with Store(space.store_url, busy_timeout=30) as store:
        while time.monotonic() < end if until is None else not until.is_set():
            raw = {**report.raw, "batchId": number, "id": secrets.token_hex(4)}
            began = time.monotonic()
            store.batches.upsert_progress("writer", parse_progress(raw))
            took.append(time.monotonic() - began)
            number += 1
            time.sleep(WRITES)
    return took


def evaluated(space: Workspace) -> float:
    """Seconds of an evaluation of all streams, in a process of its own."""
    environment = {**os.environ, **space.environment(), STORE_VARIABLE: space.store_url}
    command = [str(Path(sys.executable).with_name("streamwarden")), "check"]
    began = time.time()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)  # its status is what it found
    recorded = [each.seconds for each in space.store.evaluations.all() if each.at >= began]
    if not recorded:
        raise SystemExit("`streamwarden check` evaluated nothing")
    return recorded[-1]


def evaluations(space: Workspace, until: threading.Event) -> list[float]:
    """Seconds of each evaluation, one after the other, until the event."""
    took = []
    while not until.is_set():
        took.append(evaluated(space))
    return took


@contextlib.contextmanager
def serving(space: Workspace) -> Iterator[tuple[str, dict[str, str]]]:
    """The app on a free port of this host, and the header of a user who may read everything."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            **space.environment(),
            STORE_VARIABLE: space.store_url,
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:viewer",
        }
        script, note = REPOSITORY / "benchmarks/pages/server.py", Path(home) / "token"
        process = subprocess.Popen([sys.executable, str(script), str(port), str(note)], env=environment)
        try:
            while not (note.exists() and note.read_text().endswith("\n")):
                if process.poll() is not None:
                    raise SystemExit("the server ended before it served")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/streamwarden", {"Authorization": f"Bearer {note.read_text().strip()}"}
        finally:
            process.terminate()
            process.wait(20)


def asked(base: str, headers: dict[str, str], requests: int) -> list[tuple[str, list[float]]]:
    """(address, seconds of each answer)."""
    day, week, quarter = (time.time() - days * 86400 for days in (1, 7, QUARTER))
    stream = "/api/v1/streams/stream_0001"
    addresses = (
        "/api/v1/streams",
        "/api/v1/streams?sort=state_size&descending=true&q=team_3",
        stream,
        f"{stream}/charts",
        f"{stream}/charts?since={day:.0f}",
        f"{stream}/charts?since={week}",
        f"{stream}/charts?since={quarter}",
        f"{stream}/events",
        "/api/v1/drills",
        "/?part=fleet",
        "/streams/stream_0001?part=live",
        "/streams/stream_0001/history?part=history",
    )
    found = []
    with httpx.Client(headers=headers, timeout=60) as client:
        await_answer(client, base)
        for address in addresses:
            took = []
            for _ in range(requests):
                began = time.monotonic()
                answer = client.get(base + address)
                if answer.is_error:
                    raise SystemExit(f"{address}: {answer.status_code} {answer.text}")
                took.append(time.monotonic() - began)
            found.append((address, took))
    return found


def await_answer(client: httpx.Client, base: str) -> None:
    """Ask until the server listens; the first answer reads all streams."""
    deadline = time.monotonic() + 300
    while True:
        try:
            began = time.monotonic()
            client.get(f"{base}/api/v1/streams").raise_for_status()
            print(f"the first answer took {time.monotonic() - began:.1f} s", file=sys.stderr)
            return
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def painted(base: str, headers: dict[str, str]) -> dict[str, float]:
    """Page -> seconds until the browser painted something first, the median of five."""
    from playwright.sync_api import sync_playwright

    script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        for path in PAINTS:
            times = []
            for _ in range(5):
                page = browser.new_context(extra_http_headers=headers).new_page()
                page.goto(base + path)
                while (paint := page.evaluate(script)) is None:
                    page.wait_for_timeout(20)
                times.append(paint / 1000)
                page.context.close()
            found[path] = statistics.median(times)
        browser.close()
    return found


def report(
    rows: Sequence[tuple[str, list[float]]], paints: dict[str, float], writes: dict[str, Sequence[float]]
) -> None:
    """Print the tables."""
    print("| address | median | p95 |\n|---|---|---|")
    for address, took in rows:
        print(f"| `{address}` | {1000 * statistics.median(took):.0f} ms | {1000 * p95(took):.0f} ms |")
    print("\n| first paint | seconds | goal |\n|---|---|---|")
    for path, paint in paints.items():
        print(f"| `{path}` | {paint:.2f} | {PAINTS[path]:.1f} |")
    print("\n| a driver's write of a report | median | p95 |\n|---|---|---|")
    for name, times in writes.items():
        print(f"| {name} | {1000 * statistics.median(times):.1f} ms | {1000 * p95(times):.1f} ms |")
    worst = max(p95(took) for _, took in rows)
    print(f"\nGoal: p95 of every address below {1000 * API_GOAL:.0f} ms: {'met' if worst < API_GOAL else 'missed'}.")
    print(f"Load: {os.getloadavg()[0]:.1f}.")


def report_rounds(rounds: dict[str, Sequence[float]]) -> None:
    """Print how long the evaluations took."""
    print("\n| an evaluation of all streams | seconds |\n|---|---|")
    for name, took in rounds.items():
        print(f"| {name} | {', '.join(f'{each:.1f}' for each in took)} |")


def p95(took: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(took)[max(0, int(0.95 * len(took)) - 1)]


if __name__ == "__main__":
    sys.exit(main())
