"""The steps of the demo, in order. Each wait has a deadline, and names the log that explains a failure."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from output import DemoFailed, Output, Updates, open_page
from rich.markup import escape
from summary import addresses, kill_to_try, summary

from streamwarden.drills.records.journal import DrillRun
from streamwarden.errors import AirflowError, StoreError, StreamwardenError
from streamwarden.health.verdict import Status
from streamwarden.services.local.airflow import FIRST_PORT
from streamwarden.services.local.installation import Installation
from streamwarden.services.local.marked import MarkedProcesses
from streamwarden.services.notifying.notifiers import URLS_VARIABLE
from streamwarden.services.workspace import Workspace

T = TypeVar("T")

STREAM: Final = "flight_departures"
DRILL: Final = "kill_driver"
STREAM_DAG: Final = f"stream_{STREAM}"
DRILL_DAG: Final = f"drill_{DRILL}"

AT_ONCE: Final = 120_000
"""Flights in the first files: a drill is judged over at least 100,000 keyed records."""

SPEEDUP: Final = 5_000
"""After them comes one file of 500 flights about every ten seconds, so that the stream always has work."""

BATCHES: Final = 3
"""Batches that the stream commits before its health is checked."""


@dataclass(frozen=True)
class Demo:
    """What every step needs."""

    installation: Installation
    output: Output
    space: Workspace

    @property
    def pages(self) -> str:
        """The fleet page, inside Airflow."""
        return f"{self.url}/plugin/streams"

    @property
    def url(self) -> str:
        return self.installation.airflow.url


def new_demo(project: Path, data: Path, output: Output) -> Demo:
    """A demo with its own data folder and store."""
    space = Workspace.open(project, data, environ={})
    installation = Installation(
        project,
        data,
        store=space.store,
        fleet=space.fleet,
        # the demo breaks streams on purpose, so it sends no notification
        settings={**space.environment(), URLS_VARIABLE: ""},
    )
    return Demo(installation, output, space)


def set_aside(data: Path, now: datetime) -> Path | None:
    """Rename the folder of the last demo, so that this one starts empty and nothing that a person tried is deleted.

    Ends the processes of a demo that was killed.
    """
    MarkedProcesses(data, data).stop(patience=5.0)
    if not data.exists():
        return None
    return data.rename(data.with_name(f"{data.name}-{now:%Y-%m-%dT%H-%M-%S}"))


def run_demo(demo: Demo) -> bool:
    """All steps up to the summary. Returns whether the drill passed."""
    replay = _start_replay(demo)
    _start_airflow(demo)
    _continue_replay(demo, replay)
    _start_stream(demo)
    _check_health(demo)
    _kill_airflow(demo)
    run = _run_drill(demo)
    demo.output.show(summary(demo.space, run, stream=STREAM))
    for line in addresses(demo.space, run, fleet=demo.pages, airflow=demo.url):
        demo.output.line(line)
    return run.passed


def keep_running(demo: Demo) -> None:
    """Wait for Ctrl-C. A component of Airflow that ends is started again."""
    for line in kill_to_try(demo.space, STREAM):
        demo.output.line(line)
    demo.output.line("everything keeps running for you to look at; Ctrl-C stops it")
    demo.output.line("try to kill one of Airflow's processes: it starts again, and the stream goes on")
    demo.installation.keep_running(demo.output.line)


def stop(demo: Demo) -> None:
    """Stop Airflow, the stream at a batch boundary, then everything else."""
    demo.output.line("stopping Airflow, then the stream at a batch boundary")
    try:
        demo.installation.stop()
    finally:
        demo.space.close()


def _start_replay(demo: Demo) -> subprocess.Popen[bytes]:
    demo.output.line(f"replaying real flights: {AT_ONCE:,} at once, then one file about every ten seconds")
    return _replay(demo, "--limit", str(AT_ONCE))


def _continue_replay(demo: Demo, first: subprocess.Popen[bytes]) -> None:
    log = [demo.installation.marked.log_path("replay")]
    code = _wait_for(demo, "the first flights", 180, lambda show: first.poll(), log)
    if code != 0:
        raise DemoFailed(f"the replay ended with status {code}", log)
    _replay(demo, "--speedup", str(SPEEDUP))


def _replay(demo: Demo, *options: str) -> subprocess.Popen[bytes]:
    marked = demo.installation.marked
    command = [sys.executable, "-m", "streamwarden.cli", "replay", "--stream", STREAM, *options]
    return marked.start("replay", command, marked.environment(demo.space.environment()), demo.space.project)


def _start_airflow(demo: Demo) -> None:
    port = demo.installation.airflow.port
    if port != FIRST_PORT:
        demo.output.line(f"[yellow]port {FIRST_PORT} is in use: using {port}[/]")
    demo.output.line("starting Airflow (SQLite, no login, this machine only)")
    with demo.output.waiting("waiting for Airflow …"):
        demo.installation.start()
    for dag in (STREAM_DAG, "health", DRILL_DAG):
        _wait_for(demo, f"the DAG {dag}", 240, partial(_has_dag, demo, dag), demo.installation.airflow.log_paths())
    demo.output.line(f"Airflow is up: [bold]{demo.pages}[/]")
    open_page(demo.pages)


def _has_dag(demo: Demo, dag: str, show: Updates) -> bool | None:
    if demo.installation.server.has_dag(dag):
        return True
    wrong = demo.installation.server.import_errors()
    if wrong:
        raise DemoFailed("a DAG file cannot be imported: " + "; ".join(wrong))
    return None


def _start_stream(demo: Demo) -> None:
    demo.installation.server.unpause(STREAM_DAG)
    demo.output.line(f"unpaused [bold]{STREAM_DAG}[/]: it starts a Spark driver and then defers")
    driver = _wait_for(
        demo, "the stream's driver", 300, partial(_running_driver, demo), _explaining_logs(demo, STREAM_DAG)
    )
    demo.output.line(f"driver {escape(driver)} runs the query")

    def enough(show: Updates) -> int | None:
        total = demo.space.store.batches.summary(STREAM)
        show(f"{total.batches} batches, {total.rows:,} rows")
        return total.batches if total.batches >= BATCHES else None

    _wait_for(demo, "the first batches", 300, enough, _explaining_logs(demo, STREAM_DAG))
    total = demo.space.store.batches.summary(STREAM)
    demo.output.line(f"{total.batches} batches committed, {total.rows:,} rows in")


def _running_driver(demo: Demo, show: Updates) -> str | None:
    record = demo.space.store.drivers.latest(STREAM)
    if record is None:
        show("waiting for the scheduler")
        return None
    if record.exit is not None:
        raise DemoFailed(f"the driver ended: {record.exit.message}", _explaining_logs(demo, STREAM_DAG)())
    show(f"driver {record.driver_id} starts Spark")
    return record.driver_id if record.started_at is not None else None


def _check_health(demo: Demo) -> None:
    run = _trigger(demo, "health")
    demo.output.line("[bold]health[/] runs: every check on every stream")
    state = _wait_for(
        demo, "the health DAG", 300, lambda show: _final_state(demo, "health", run), _explaining_logs(demo, "health")
    )
    verdicts = demo.space.store.verdicts.latest(STREAM)
    if not verdicts:
        raise DemoFailed(f"the health DAG ended ({state}) without a verdict", _explaining_logs(demo, "health")())
    counts = Counter(verdict.status.value for verdict in verdicts)
    words = [f"{count} {word}" for word, count in counts.most_common()]
    demo.output.line(f"health of {STREAM}: {', '.join(words)}")
    lacking = sorted(verdict.check for verdict in verdicts if verdict.status is Status.UNKNOWN)
    if lacking:
        demo.output.line(f"UNKNOWN is not a failure: these checks lack data so far: {', '.join(lacking)}")


def _kill_airflow(demo: Demo) -> None:
    """Kill Airflow's scheduler and triggerer; the stream must not notice."""
    before = demo.space.store.drivers.latest(STREAM)
    batches = demo.space.store.batches.summary(STREAM).batches
    killed = ("scheduler", "triggerer")
    for name in killed:
        if (pid := demo.installation.airflow.pid(name)) is not None:
            os.kill(pid, signal.SIGKILL)
    demo.output.line(f"killed Airflow's {' and '.join(killed)} with SIGKILL")
    logs = demo.installation.airflow.log_paths()
    _wait_for(demo, "the end of both", 10, lambda show: _restart_dead(demo) or None, logs)
    _wait_for(demo, "the next batch", 300, lambda show: _commits_more_than(demo, batches), logs)
    _wait_for(demo, "Airflow", 300, lambda show: demo.installation.is_healthy() or None, logs)
    after = demo.space.store.drivers.latest(STREAM)
    if before is None or after is None or before.driver_id != after.driver_id:
        raise DemoFailed("the stream got another driver when Airflow was killed", logs)
    demo.output.line(
        "[green]Airflow runs again, and the stream never noticed: the same driver committed more batches[/]"
    )


def _commits_more_than(demo: Demo, batches: int) -> bool | None:
    return demo.space.store.batches.summary(STREAM).batches > batches or None


def _restart_dead(demo: Demo) -> bool:
    """Whether a component of Airflow has ended since the last call; it is started again."""
    ended = demo.installation.airflow.restart_dead()
    for each in ended:
        demo.output.line(f"[yellow]{escape(str(each))}[/]")
    return bool(ended)


def _run_drill(demo: Demo) -> DrillRun:
    run = _trigger(demo, DRILL_DAG)
    demo.output.line(f"[bold]{DRILL_DAG}[/] runs: it breaks a fork of the stream and verifies what comes out")
    journals = demo.space.store.journals
    shown = 0

    def over(show: Updates) -> str | None:
        nonlocal shown
        newest = next(iter(journals.recent(drill=DRILL, limit=1)), None)
        entries = journals.entries(newest.run_id) if newest else ()
        for entry in entries[shown:]:
            if entry.kind != "traceback":
                demo.output.line(f"[cyan]{entry.step.value}[/]: {escape(_one_line(entry.message))}")
        shown = len(entries)
        return _final_state(demo, DRILL_DAG, run)

    _wait_for(demo, "the drill", 1800, over, _explaining_logs(demo, DRILL_DAG))
    found = next(iter(journals.recent(drill=DRILL, limit=1)), None)
    if found is None or found.ended_at is None:
        raise DemoFailed("the drill's DAG ended without a verdict", _explaining_logs(demo, DRILL_DAG)())
    return found


def _trigger(demo: Demo, dag: str) -> str:
    """Unpause the DAG and start a run."""
    demo.installation.server.unpause(dag)
    return demo.installation.server.trigger(dag)


def _final_state(demo: Demo, dag: str, run: str) -> str | None:
    state = demo.installation.server.run_state(dag, run)
    return state if state in ("success", "failed") else None


def _explaining_logs(demo: Demo, dag: str) -> Callable[[], list[Path]]:
    """The logs that explain why a DAG makes no progress: those of its tasks and of the stream's driver."""

    def logs() -> list[Path]:
        found = demo.installation.airflow.task_logs(dag)
        with contextlib.suppress(StreamwardenError):
            record = demo.space.store.drivers.latest(STREAM)
            if record is not None and dag == STREAM_DAG:
                found.append(demo.space.fleet.log_path(record.driver_id))
        return found or demo.installation.airflow.log_paths()[:1]

    return logs


def _wait_for(
    demo: Demo,
    what: str,
    seconds: float,
    check: Callable[[Updates], T | None],
    logs: Sequence[Path] | Callable[[], Sequence[Path]],
) -> T:
    """The result of `check` as soon as it is not None. Raises DemoFailed after `seconds`."""
    deadline = time.monotonic() + seconds
    with demo.output.waiting(f"waiting for {what} …") as update:
        while True:
            try:
                result = check(lambda text: update(f"{what}: {text}"))
            except (StoreError, OSError, AirflowError):  # locked, or Airflow restarts: the deadline decides
                result = None
            if result is not None:
                return result
            _restart_dead(demo)
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what}: not there within {seconds:.0f} s", logs() if callable(logs) else logs)
            time.sleep(0.5)


def _one_line(text: str) -> str:
    return " ".join(text.split())
