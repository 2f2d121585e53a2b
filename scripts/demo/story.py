"""What happens in the demo, in order, each wait with a deadline and the log that explains a failure."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ground import DemoFailed, Ground
from local_airflow import FIRST_PORT, LocalAirflow
from rich.markup import escape
from summary import summary
from voice import Updates, Voice

from streamwarden.drills.journal import DrillRun
from streamwarden.errors import StoreError, StreamwardenError
from streamwarden.services.workspace import Workspace

T = TypeVar("T")

STREAM: Final = "flight_departures"
DRILL: Final = "kill_driver"
STREAM_DAG: Final = f"stream_{STREAM}"
DRILL_DAG: Final = f"drill_{DRILL}"

AT_ONCE: Final = 120_000
"""Flights that are there from the start: a drill is judged over at least 100,000 keyed records."""

SPEEDUP: Final = 5_000
"""Then one file of 500 flights about every ten seconds: the stream goes on living while somebody looks."""

REPLAY: Final = ("streamwarden", "replay", "--stream", STREAM)

BATCHES: Final = 3
"""Batches that the stream has committed before its health is judged."""


class Story:
    """One demo. `told`: the drill's verdict was shown."""

    def __init__(self, ground: Ground, airflow: LocalAirflow, voice: Voice) -> None:
        self._ground = ground
        self._airflow = airflow
        self._voice = voice
        self._space = Workspace.open(
            ground.project, ground.data, f"sqlite:///{ground.data / 'streamwarden.db'}", environ={}
        )
        self.told = False

    def tell(self) -> bool:
        """The whole of it, to the summary. True if the drill passed."""
        replay = self._start_replay()
        self._start_airflow()
        self._go_on_replaying(replay)
        self._start_stream()
        self._judge_health()
        run = self._drill()
        self._voice.show(summary(self._space, run, stream=STREAM, url=self._airflow.url))
        self.told = True
        return run.passed

    def stay(self) -> None:
        """Until Ctrl-C. Raises DemoFailed if Airflow ends by itself."""
        self._voice.say("everything stays up for you to look at; Ctrl-C ends it")
        while True:
            self._airflow.check_alive()
            time.sleep(1.0)

    def _start_replay(self) -> subprocess.Popen[bytes]:
        self._voice.say(f"replaying real flights: {AT_ONCE:,} at once, then one file about every ten seconds")
        return self._ground.spawn("replay", [*REPLAY, "--limit", str(AT_ONCE)], self._ground.environment())

    def _go_on_replaying(self, first: subprocess.Popen[bytes]) -> None:
        log = [self._ground.log_of("replay")]
        code = self._until("the first flights", 180, lambda tell: first.poll(), log)
        if code != 0:
            raise DemoFailed(f"the replay ended with status {code}", log)
        self._ground.spawn("replay", [*REPLAY, "--speedup", str(SPEEDUP)], self._ground.environment())

    def _start_airflow(self) -> None:
        port = self._airflow.port
        if port != FIRST_PORT:
            self._voice.say(f"[yellow]port {FIRST_PORT} is taken: using {port}[/]")
        self._voice.say("starting Airflow (SQLite, no login, this machine only)")
        self._airflow.start()
        self._until("Airflow", 300, lambda tell: self._airflow.is_healthy() or None, self._airflow.logs())
        for dag in (STREAM_DAG, "health", DRILL_DAG):
            self._until(f"the DAG {dag}", 240, partial(self._has_dag, dag), self._airflow.logs())
        self._voice.say(f"Airflow is up: [bold]{self._airflow.url}[/]")

    def _has_dag(self, dag: str, tell: Updates) -> bool | None:
        if self._airflow.has_dag(dag):
            return True
        wrong = self._airflow.import_errors()
        if wrong:
            raise DemoFailed("a DAG file cannot be imported: " + "; ".join(wrong))
        return None

    def _start_stream(self) -> None:
        self._airflow.unpause(STREAM_DAG)
        self._voice.say(f"unpaused [bold]{STREAM_DAG}[/]: it starts a Spark driver and then defers")
        driver = self._until("the stream's driver", 300, self._query, self._explanation(STREAM_DAG))
        self._voice.say(f"driver {escape(driver)} runs the query")

        def enough(tell: Updates) -> int | None:
            total = self._space.store.batches.summary(STREAM)
            tell(f"{total.batches} batches, {total.rows:,} rows")
            return total.batches if total.batches >= BATCHES else None

        self._until("the first batches", 300, enough, self._explanation(STREAM_DAG))
        total = self._space.store.batches.summary(STREAM)
        self._voice.say(f"{total.batches} batches committed, {total.rows:,} rows in")

    def _query(self, tell: Updates) -> str | None:
        record = self._space.store.drivers.latest(STREAM)
        if record is None:
            tell("waiting for the scheduler")
            return None
        if record.exit is not None:
            raise DemoFailed(f"the driver ended: {record.exit.message}", self._explanation(STREAM_DAG)())
        tell(f"driver {record.driver_id} starts Spark")
        return record.driver_id if record.started_at is not None else None

    def _judge_health(self) -> None:
        run = self._run_of("health")
        self._voice.say("[bold]health[/] runs: every check on every stream")
        state = self._until("the health DAG", 300, lambda tell: self._ended("health", run), self._explanation("health"))
        verdicts = self._space.store.verdicts.latest(STREAM)
        if not verdicts:
            raise DemoFailed(f"the health DAG ended ({state}) without a verdict", self._explanation("health")())
        counts = Counter(verdict.status.value for verdict in verdicts)
        words = [f"{count} {word}" for word, count in counts.most_common()]
        self._voice.say(f"health of {STREAM}: {', '.join(words)}")

    def _drill(self) -> DrillRun:
        run = self._run_of(DRILL_DAG)
        self._voice.say(f"[bold]{DRILL_DAG}[/] runs: it breaks a fork of the stream and verifies what comes out")
        journals = self._space.store.journals
        told = 0

        def over(tell: Updates) -> str | None:
            nonlocal told
            newest = next(iter(journals.recent(drill=DRILL, limit=1)), None)
            entries = journals.entries(newest.run_id) if newest else ()
            for entry in entries[told:]:
                if entry.kind != "traceback":
                    self._voice.say(f"[cyan]{entry.step.value}[/]: {escape(_one_line(entry.message))}")
            told = len(entries)
            return self._ended(DRILL_DAG, run)

        self._until("the drill", 1800, over, self._explanation(DRILL_DAG))
        found = next(iter(journals.recent(drill=DRILL, limit=1)), None)
        if found is None or found.ended_at is None:
            raise DemoFailed("the drill's DAG ended without a verdict", self._explanation(DRILL_DAG)())
        return found

    def _run_of(self, dag: str) -> str:
        """Unpause the DAG and start a run."""
        self._airflow.unpause(dag)
        return self._airflow.trigger(dag)

    def _ended(self, dag: str, run: str) -> str | None:
        state = self._airflow.run_state(dag, run)
        return state if state in ("success", "failed") else None

    def _explanation(self, dag: str) -> Callable[[], list[Path]]:
        """The logs that explain why a DAG does not get on: its tasks', and the stream's driver's."""

        def logs() -> list[Path]:
            found = self._airflow.task_logs(dag)
            with contextlib.suppress(StreamwardenError):
                record = self._space.store.drivers.latest(STREAM)
                if record is not None and dag == STREAM_DAG:
                    found.append(self._space.fleet.log_path(record.driver_id))
            return found or self._airflow.logs()[:1]

        return logs

    def _until(
        self,
        what: str,
        seconds: float,
        check: Callable[[Updates], T | None],
        logs: Sequence[Path] | Callable[[], Sequence[Path]],
    ) -> T:
        """What `check` returns once that is not None. Raises DemoFailed after `seconds`, or if Airflow ends."""
        deadline = time.monotonic() + seconds
        with self._voice.waiting(f"waiting for {what} …") as show:
            while True:
                try:
                    result = check(lambda text: show(f"{what}: {text}"))
                except (StoreError, OSError):  # locked or not up yet: the deadline decides
                    result = None
                if result is not None:
                    return result
                self._airflow.check_alive()
                if time.monotonic() > deadline:
                    raise DemoFailed(
                        f"{what} did not get there within {seconds:.0f} s", logs() if callable(logs) else logs
                    )
                time.sleep(0.5)

    def end(self) -> None:
        """End the stream at a batch boundary, then everything else."""
        self._voice.say("ending: the stream at a batch boundary, then Airflow")
        with contextlib.suppress(StreamwardenError):
            self._space.fleet.stop(
                STREAM, requested_by="demo", reason="the demo ends", batch_deadline=10.0, term_deadline=3.0
            )
        self._ground.end_processes(patience=8.0)
        self._space.close()

    def end_hard(self) -> None:
        """End everything now."""
        self._ground.end_processes(patience=0.0)


def _one_line(text: str) -> str:
    return " ".join(text.split())
