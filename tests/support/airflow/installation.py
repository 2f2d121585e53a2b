"""A running Airflow with one counting stream, and questions about the drivers of that stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from streamwarden.health.evaluations import INTERVAL, Evaluator
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord
from streamwarden.services.monitoring.rounds import run_round
from streamwarden.services.workspace import Workspace
from support.airflow.harness import CLOCKED, Airflow, command_of, group_leaders, running, wait_for
from support.airflow.project import Producer, repeated

COUNTED = "stream_counted"
LONG = 240.0
"""Seconds after which a condition that a quiet machine fulfils in seconds counts as never fulfilled on a busy one."""


class Installation:
    """Airflow, the workspace it works on, and questions about the drivers."""

    def __init__(self, airflow: Airflow, space: Workspace, producer: Producer) -> None:
        self.airflow, self.space, self.producer = airflow, space, producer

    def latest(self, stream: str = "counted") -> DriverRecord | None:
        return self.space.store.drivers.latest(stream)

    def jvms(self, stream: str = "counted") -> list[int]:
        """Pids of all processes that lead a driver of this stream, whatever the store says.

        Each driver leads a process group; a child that a JVM has forked and not yet replaced looks like it otherwise.
        """
        mark = f"{self.space.data}/drivers/{stream}/".encode()
        commands = ((pid, command_of(pid)) for pid in group_leaders())
        return [pid for pid, command in commands if mark in command and b"deploy.SparkSubmit" in command]

    def committed(self, stream: str = "counted") -> int:
        """The newest committed batch; -1 before the first."""
        folder = self.space.data / "checkpoints" / stream / "commits"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def live_driver(self, *, other_than: str | None = None) -> DriverRecord:
        """Wait for a driver whose query runs, and that is followed by a deferred task."""

        def ready() -> DriverRecord | None:
            record = self.latest()
            if record is None or record.driver_id == other_than or record.exit is not None or not record.started_at:
                return None
            task = self.airflow.task(COUNTED)
            return record if task is not None and task["state"] == "deferred" else None

        return wait_for("a driver that is followed", ready, timeout=LONG, explain=self.story)

    def commits_again(self) -> None:
        """New input is committed: the driver works, whatever happened around it."""
        before = self.committed()
        self.producer.publish(2)
        wait_for("a new committed batch", lambda: self.committed() > before, timeout=LONG, explain=self.story)

    def unharmed(self, before: DriverRecord) -> None:
        """It is still the same driver process, it is the only one, it works, and its task follows it."""
        after = self.live_driver()
        assert after.driver_id == before.driver_id, self.story()
        assert after.process == before.process
        assert before.process is not None
        assert self.jvms() == [before.process.pid]
        self.commits_again()
        assert self.jvms() == [before.process.pid]

    def judge(self) -> None:
        """Evaluate all streams once, as the health DAG does each minute, without the processor time of its tasks."""
        run_round(self.space, Evaluator.WATCH)

    @contextmanager
    def judged_each_minute(self) -> Iterator[None]:
        """Verdicts do not grow old meanwhile."""
        self.judge()
        with repeated(self.judge, every=INTERVAL):
            yield

    def exit_of(self, driver_id: str, timeout: float = LONG) -> ExitRecord:
        def ended() -> ExitRecord | None:
            record = self.space.store.drivers.get(driver_id)
            return record.exit if record is not None else None

        return wait_for(f"the end of {driver_id}", ended, timeout=timeout, explain=self.story)

    def try_number(self) -> int:
        task = self.airflow.task(COUNTED)
        return int(task["try_number"]) if task else 0

    def story(self) -> str:
        """What a person would look at first."""
        lines = [f"runs {[(run['dag_run_id'], run['state']) for run in self.airflow.runs(COUNTED)]}"]
        task = self.airflow.task(COUNTED)
        if task is not None:
            lines += [f"task {task['state']} try {task['try_number']}"]
            lines += self.airflow.log(COUNTED, task, task["try_number"]).splitlines()[-25:]
        for record in self.space.store.drivers.history("counted", 0):
            lines.append(f"{record.driver_id} {record.process} {record.exit}")
        return "\n".join(lines)


@contextmanager
def installed(
    root: Path, project: Path, *dag_ids: str, silent: Collection[str] = CLOCKED, **environment: str
) -> Iterator[Installation]:
    """Airflow over the project, until the end: the stream `counted` reads new input, runs, and is judged each minute.

    Args:
        dag_ids: other DAGs that are not paused.
        silent: DAGs that would run by the clock.
        environment: more variables of Airflow's components.
    """
    space = Workspace.open(project, root / "data", environ={})
    producer = Producer(root / "data" / "input" / "counted")
    producer.publish(3)
    wanted = {COUNTED, "stop_stream", "start_stream", *dag_ids}
    try:
        airflow = Airflow(root / "airflow", project, root / "data")
        airflow.env |= environment
        with running(airflow, silent), producer.running():
            wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
            for dag_id in (COUNTED, *dag_ids):
                airflow.pause(dag_id, False)
            found = Installation(airflow, space, producer)
            found.live_driver()
            with found.judged_each_minute():
                yield found
    finally:
        space.fleet.stop("counted", requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
        space.close()
