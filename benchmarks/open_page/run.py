"""What an open fleet page costs the API server while every stream runs and commits batches.

    python benchmarks/open_page/run.py [--streams 1000 100 10] [--seconds 60] [--viewers 1 3] [--every 5]

Builds a project of so many streams, each with an hour of batches, and serves the plugin's app as Airflow does. A writer
commits a batch of each stream every `--every` seconds. Viewers behave as `pages.js`: each asks for the fleet's table
again as long after an answer as the page and the answer say, with the ETag of what it shows. Prints the processor time
of the server's process over `--seconds` by these, without a viewer and with each number of viewers, and how long after
a driver's death a viewer was told of it: the longest of `DEATHS`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.pages.run import await_answer, batch_row, insert, judge, launched, opened, serving

from streamwarden.adapters.store.tables import batches
from streamwarden.services.workspace import Workspace

KEPT: Final = 3600.0
"""Seconds of batches that each stream has at the beginning: as many as a rate is made of, and more."""
SETTLE: Final = 20.0
"""Seconds in which the viewers look before the processor's time is counted: the first readings have more to do."""
DEATHS: Final = 3
PAUSE: Final = 0.25
"""Seconds between two transactions of the writer."""
REFRESH: Final = re.compile(r'id="fleet" data-refresh="([\d.]+)"')
DOWN: Final = re.compile(r"<b>(\d+)</b> down")
GOAL: Final = 0.02
SLEEP: Final = (sys.executable, "-c", "import signal; signal.pause()")
"""The process of a driver that may die."""


def main() -> int:
    """Parse the options, measure each size, print."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--streams", type=int, nargs="+", default=[1000, 100, 10])
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--viewers", type=int, nargs="+", default=[1, 3])
    options.add_argument("--every", type=float, default=5.0)
    given = options.parse_args()
    print(
        "| streams | viewers | share of a core | requests | with rows | kB | a death is shown after |\n|" + "---|" * 7
    )
    for streams in given.streams:
        with tempfile.TemporaryDirectory(prefix="streamwarden-benchmark-", ignore_cleanup_errors=True) as folder:
            measure(Path(folder), streams, given.seconds, (0, *given.viewers), given.every)
    print(f"\nGoal: at most {100 * GOAL:.0f} % of a core above that without a viewer, a death within about 3 s.")
    print(f"Load: {os.getloadavg()[0]:.1f}.")
    return 0


def measure(root: Path, streams: int, seconds: float, viewers: Sequence[int], every: float) -> None:
    """Print a line for each number of viewers."""
    drivers = [subprocess.Popen(SLEEP) for _ in range(min(streams, DEATHS * len(viewers)))]
    mortal = list(enumerate(drivers))
    done = threading.Event()
    try:
        space = build(root, streams, drivers, every)
        with serving(space) as (base, headers), ThreadPoolExecutor(1) as beside:
            beside.submit(commits, space, streams, every, done)
            try:
                with httpx.Client(headers=headers, timeout=60) as client:
                    await_answer(client, base)
                server = _server()
                for count in viewers:
                    print(line(base, headers, streams, count, seconds, server, mortal), flush=True)
            finally:
                done.set()
    finally:
        for driver in drivers:
            driver.kill()
            driver.wait()


def _server() -> psutil.Process:
    return next(each for each in psutil.Process().children() if "server.py" in " ".join(each.cmdline()))


def build(root: Path, streams: int, drivers: Sequence[subprocess.Popen[bytes]], every: float) -> Workspace:
    """The project and its store: every stream runs, and was judged just now."""
    space = opened(root, streams)
    now = time.time()
    own = os.getpid()
    for number in range(streams):
        name = f"stream_{number:04}"
        count = int(KEPT / every / 4)
        insert(space.store, batches, [_batch(name, n, now - KEPT + n * every * 4, number) for n in range(count)])
        launched(space.store, name, drivers[number].pid if number < len(drivers) else own, now - 7200)
    judge(space.store, streams)
    return space


def _batch(stream: str, number: int, at: float, kind: int) -> dict[str, Any]:
    """With other numbers than the batch before, so that each row changes."""
    return batch_row(stream, number, at, 4000 + (977 * number + kind) % 2000, 700 + (131 * number + kind) % 500)


def commits(space: Workspace, streams: int, every: float, done: threading.Event) -> None:
    """Commit a batch of each stream every `every` seconds, evenly, until the event."""
    began, written = time.time(), 0
    while not done.wait(PAUSE):
        due = int((time.time() - began) * streams / every)
        rows = [_batch(f"stream_{n % streams:04}", 10_000 + n // streams, time.time(), n) for n in range(written, due)]
        if rows:
            insert(space.store, batches, rows)
        written = due


@dataclass
class Viewer:
    """One open page."""

    base: str
    headers: dict[str, str]
    until: threading.Event
    asked: int = 0
    changed: int = 0
    received: int = 0
    down: dict[int, float] = field(default_factory=dict)
    """how many streams are down -> when this page was told so first, Unix seconds"""

    def look(self) -> None:
        """Load the page, then refresh its table until the event."""
        with httpx.Client(headers={**self.headers, "Accept": "text/html"}, timeout=60) as client:
            page = client.get(f"{self.base}/").raise_for_status()
            found = REFRESH.search(page.text)
            if found is None:
                raise SystemExit("the page does not say how often its table refreshes")
            etag, wait = "", float(found[1])
            while not self.until.wait(wait):
                answer = client.get(f"{self.base}/?part=fleet", headers={"If-None-Match": etag} if etag else {})
                self.asked += 1
                self.received += answer.num_bytes_downloaded
                if answer.status_code == httpx.codes.NOT_MODIFIED:
                    continue
                answer.raise_for_status()
                self.changed += 1
                etag = answer.headers["ETag"]
                self._notice(answer.text)

    def _notice(self, html: str) -> None:
        found = DOWN.search(html)
        self.down.setdefault(int(found[1]) if found else 0, time.time())


def line(
    base: str,
    headers: dict[str, str],
    streams: int,
    count: int,
    seconds: float,
    server: psutil.Process,
    mortal: list[tuple[int, subprocess.Popen[bytes]]],
) -> str:
    """A line of the table."""
    until = threading.Event()
    viewers = [Viewer(base, headers, until) for _ in range(count)]
    with ThreadPoolExecutor(max(1, count)) as pool:
        looking = [pool.submit(viewer.look) for viewer in viewers]
        try:
            time.sleep(SETTLE if count else 1.0)
            asked, changed, received = _sums(viewers)
            before, began = _used(server), time.monotonic()
            time.sleep(seconds)
            share = (_used(server) - before) / (time.monotonic() - began)
            numbers = [now - then for now, then in zip(_sums(viewers), (asked, changed, received), strict=True)]
            late = [_death(viewers, mortal.pop(0)) for _ in range(DEATHS) if viewers and mortal]
        finally:
            until.set()
        for each in looking:
            each.result()
    last = f"{max(late):.1f} s" if late else "–"
    asked, changed, received = numbers
    return f"| {streams} | {count} | {100 * share:.2f} % | {asked} | {changed} | {received / 1000:.0f} | {last} |"


def _sums(viewers: Sequence[Viewer]) -> tuple[int, int, int]:
    return (
        sum(viewer.asked for viewer in viewers),
        sum(viewer.changed for viewer in viewers),
        sum(viewer.received for viewer in viewers),
    )


def _used(server: psutil.Process) -> float:
    times = server.cpu_times()
    return times.user + times.system


def _death(viewers: Sequence[Viewer], mortal: tuple[int, subprocess.Popen[bytes]]) -> float:
    """Seconds from the death of this driver, the one of so many, until the last viewer is told."""
    number, driver = mortal
    driver.kill()
    driver.wait()
    died = time.time()
    while not all(number + 1 in viewer.down for viewer in viewers):
        if time.time() > died + 120:
            raise SystemExit(f"no page shows that {number + 1} drivers have died")
        time.sleep(0.05)
    return max(viewer.down[number + 1] for viewer in viewers) - died


if __name__ == "__main__":
    sys.exit(main())
