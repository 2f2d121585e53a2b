"""A drill of the demo with drivers from a pool of standbys, and with a cold start of each driver.

The stream of the demo runs over 120,000 flights and keeps the pool. Each round runs its drill `kill_driver` twice, in
changing order: once with the full pool, once without one. Run it on a quiet machine, after `streamwarden prepare`.

    python benchmarks/standby/drill.py [--rounds 3] [--standbys 4]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from streamwarden.config.project.standbys import FILE
from streamwarden.drills.records.journal import DrillRun
from streamwarden.lifecycle.supervision.standby import PROMOTED
from streamwarden.services.fleet.standbys.pool import is_for_forks, pool_folder
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.services.forks.spec import run_name
from streamwarden.services.workspace import Workspace

REPOSITORY: Final = Path(__file__).resolve().parents[2]
STREAM: Final = "flight_departures"
DRILL: Final = "kill_driver"
FLIGHTS: Final = 120_000
PATIENCE: Final = 900.0
T = TypeVar("T")


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--standbys", type=int, default=4, help="the drill starts four drivers")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="drills-") as folder:
        home = Home(Path(folder), chosen.standbys)
        try:
            home.start()
            took = [home.round(number) for number in range(chosen.rounds)]
        finally:
            home.stop()
    print(report(took))
    return 0


class Home:
    """A project with the stream and the drill of the demo. `standbys`: how many wait for the drill's drivers."""

    def __init__(self, root: Path, standbys: int) -> None:
        self.root, self.standbys = root, standbys
        for folder in ("streams", "drills"):
            (root / "config" / folder).mkdir(parents=True)
        for name in (f"streams/{STREAM}.yaml", f"drills/{DRILL}.yaml", "thresholds.yaml"):
            shutil.copy(REPOSITORY / "config" / name, root / "config" / name)
        shutil.copytree(REPOSITORY / "spark_jobs", root / "spark_jobs")
        self.space = Workspace.open(root, root / "var", environ={})
        self.pool(full=True)

    def pool(self, *, full: bool) -> None:
        """Whether the next drill takes its drivers from the pool; the stream's driver keeps it either way."""
        text = f"count: 1\ndrills: {self.standbys}\n" if full else "count: 0\n"
        (self.root / FILE).write_text(text)

    def run(self, *words: str) -> None:
        command = [str(Path(sys.executable).with_name("streamwarden")), "--project", str(self.root), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}")

    def start(self) -> None:
        self.run("replay", "--stream", STREAM, "--limit", str(FLIGHTS))
        self.run("start", STREAM)
        until("15 batches", lambda: self.space.store.batches.summary(STREAM).rows >= FLIGHTS)

    def stop(self) -> None:
        self.run("stop", STREAM)
        until("the end of the pool", lambda: not waiting(pool_folder(self.space.data)))
        self.space.close()

    def round(self, number: int) -> tuple[float, float]:
        """Seconds of a drill with the pool and without it."""
        order = (False, True) if number % 2 else (True, False)
        took = {full: self.drill(full=full) for full in order}
        print(f"round {number}: pool {took[True]:.1f} s, cold {took[False]:.1f} s", flush=True)
        return took[True], took[False]

    def drill(self, *, full: bool) -> float:
        self.pool(full=True)
        until("a full pool", self.is_full)
        self.pool(full=full)
        self.run("drill", "run", DRILL)
        run = self.space.store.journals.recent(drill=DRILL, limit=1)[0]
        if not run.passed:
            raise SystemExit(f"the drill did not pass: {run.reason}")
        print(f"  {'pool' if full else 'cold'}: {seconds(run):.1f} s, {self.shown(run)}", flush=True)
        return seconds(run)

    def is_full(self) -> bool:
        ready = [one for one in waiting(pool_folder(self.space.data)) if one.is_ready(time.time())]
        return sum(is_for_forks(one.folder) for one in ready) >= self.standbys

    def shown(self, run: DrillRun) -> str:
        """How the drivers of the run came to be, and when each step of the drill began."""
        began: dict[str, float] = {}
        for entry in self.space.store.journals.entries(run.run_id):
            began.setdefault(entry.step.value, entry.at - run.started_at)
        drivers = self.space.store.drivers
        of_run = drivers.history(run_name(STREAM, run.run_id), run.started_at)
        warm = sum(any(event.kind == PROMOTED for event in drivers.events(one.driver_id)) for one in of_run)
        steps = ", ".join(f"{step} {at:.0f}" for step, at in began.items())
        return f"{warm} of {len(of_run)} drivers were standbys; steps began at {steps}"


def seconds(run: DrillRun) -> float:
    """From the drill's begin to its report."""
    assert run.ended_at is not None
    return run.ended_at - run.started_at


def until(what: str, condition: Callable[[], T | None]) -> T:
    """Wait for the condition, and return what it returned."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.2)
    raise SystemExit(f"after {PATIENCE:.0f} s still not: {what}")


def report(took: list[tuple[float, float]]) -> str:
    """Markdown: the medians of both, and of the ratios within each round."""
    pool, cold = (statistics.median(each) for each in zip(*took, strict=True))
    ratio = statistics.median(one / other for one, other in took)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return "\n".join(
        [
            f"| a drill `{DRILL}` of `{STREAM}` | median of {len(took)} |",
            "|---|---|",
            f"| drivers from the pool | {pool:.1f} s |",
            f"| cold starts | {cold:.1f} s |",
            "",
            f"with the pool it takes {ratio:.2f} of the time (median of the rounds); load of a core: {load:.1f}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
