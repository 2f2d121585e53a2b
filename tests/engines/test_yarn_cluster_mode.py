"""A stream in cluster mode on a real YARN, in the hands of a real Airflow, while parts of both die around it.

The driver is an application master. Airflow's task submits it and follows it through the Spark provider's durable mode;
in each scenario the question is the same: is it still the same application, and is it the only one?
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from streamwarden.health.signals.resources import WAITED
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.services.fleet.exits.log_tail import end_of_log
from streamwarden.services.workspace import Workspace
from support.airflow.harness import CLOCKED, Airflow, running, wait_for
from support.airflow.installation import COUNTED, LONG, Installation
from support.airflow.project import Producer, add_stream, make_project
from support.servers.hadoop import DEFAULT_QUEUE, NARROW_QUEUE, RESOURCE_MANAGER, Yarn

pytestmark = [pytest.mark.full, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

CROWDED = "crowded"
LOCAL = '  master: "local[1]"\n'
FOLLOWED = "running"
"""State of the task of a stream in cluster mode: it holds its slot."""


class OnYarn(Installation):
    """The installation, and YARN's view of the stream's drivers."""

    def __init__(self, airflow: Airflow, space: Workspace, producer: Producer, yarn: Yarn) -> None:
        super().__init__(airflow, space, producer)
        self.yarn = yarn

    def runs_in_cluster(self, *, other_than: str | None = None) -> DriverRecord:
        """Wait for a driver whose query runs and whose task follows it."""

        def ready() -> DriverRecord | None:
            record, task = self.latest(), self.airflow.task(COUNTED)
            if record is None or record.driver_id == other_than or record.exit is not None or not record.started_at:
                return None
            return record if task is not None and task["state"] == FOLLOWED else None

        return wait_for("a driver that is followed", ready, timeout=LONG, explain=self.story)

    def application(self, driver: DriverRecord) -> str:
        """The only application of the driver, of which YARN made one attempt."""
        (found,) = self.yarn.applications(applicationTags=driver.driver_id.lower())
        attempts = self.yarn.rest(f"cluster/apps/{found['id']}/appattempts")["appAttempts"]["appAttempt"]
        assert len(attempts) == 1
        return str(found["id"])

    def running(self) -> tuple[str, list[str]]:
        """The driver that is followed and commits new input, and the applications that YARN runs."""
        after = self.runs_in_cluster()
        alive = self.yarn.applications(states="NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING", queue=DEFAULT_QUEUE)
        self.commits_again()
        return after.driver_id, [str(found["id"]) for found in alive]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, yarn: Yarn) -> Iterator[OnYarn]:
    root = tmp_path_factory.mktemp("installation")
    project = make_project(root / "project")
    for name, queue in (("counted", DEFAULT_QUEUE), (CROWDED, NARROW_QUEUE)):
        file = add_stream(project, name)
        settings = {
            "master": "yarn",
            "deploy_mode": "cluster",
            "connection": "yarn_cluster",
            "queue": queue,
            "executors": {"instances": 1, "cores": 1, "memory": "600 MB"},
        }
        conf = "".join(f'    {key}: "{value}"\n' for key, value in yarn.spark_conf(sys.executable).items())
        lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in settings.items())
        file.write_text(file.read_text().replace(LOCAL, lines) + conf)
    airflow = Airflow(root / "airflow", project, root / "data")
    extra = {"yarn_resourcemanager_webapp_address": yarn.web}
    connection = json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})
    airflow.env["PATH"] = f"{yarn.command()}:{airflow.env['PATH']}"
    airflow.env |= {"HADOOP_CONF_DIR": str(yarn.conf), "AIRFLOW_CONN_YARN_CLUSTER": connection}
    space = Workspace.open(project, root / "data", environ={})
    producer = Producer(root / "data" / "input" / "counted")
    producer.publish(3)
    try:
        with running(airflow, CLOCKED):
            dags = {COUNTED, f"stream_{CROWDED}", "stop_stream"}
            wait_for("the DAGs", lambda: dags <= airflow.dag_ids(), timeout=LONG)
            airflow.pause(COUNTED, False)
            airflow.pause(f"stream_{CROWDED}", False)
            yield OnYarn(airflow, space, producer, yarn)
    finally:
        space.close()
        for application in yarn.applications(states="ACCEPTED,RUNNING"):
            yarn.kill_application(application["id"])


def test_the_next_try_follows_the_driver_when_the_task_process_is_killed(installation: OnYarn) -> None:
    """The death of Airflow's worker costs a try, and no driver."""
    before, tries = installation.runs_in_cluster(), installation.try_number()
    runner = installation.airflow.runner_of(COUNTED)
    assert runner is not None
    os.kill(runner, signal.SIGKILL)

    wait_for("the next try", lambda: installation.try_number() > tries, timeout=LONG, explain=installation.story)
    assert installation.running() == (before.driver_id, [installation.application(before)])


def test_the_driver_is_followed_again_when_the_scheduler_was_killed(installation: OnYarn) -> None:
    """What the killed scheduler had started goes with it, as with its host."""
    before, tries, airflow = installation.runs_in_cluster(), installation.try_number(), installation.airflow
    airflow.kill("scheduler")
    airflow.sweep("scheduler")
    airflow.start("scheduler")

    wait_for("the next try", lambda: installation.try_number() > tries, timeout=LONG, explain=installation.story)
    assert installation.running() == (before.driver_id, [installation.application(before)])


def test_a_resource_manager_that_comes_back_has_the_same_application(installation: OnYarn) -> None:
    """While it is gone the driver commits and the task waits for an answer; nothing is submitted."""
    before, yarn = installation.runs_in_cluster(), installation.yarn
    yarn.kill(RESOURCE_MANAGER)
    installation.commits_again()
    yarn.start(RESOURCE_MANAGER)
    yarn.await_open()

    assert installation.running() == (before.driver_id, [installation.application(before)])


def test_a_killed_application_master_ends_with_a_cause_and_the_task_submits_the_next_one(installation: OnYarn) -> None:
    """YARN makes no second attempt; the stream's own supervision starts the next driver, and the log of the first one,
    which YARN keeps, is shown as the driver's."""
    before = installation.runs_in_cluster()
    application = installation.application(before)
    (master, *_) = installation.yarn.containers(application)
    master.send_signal(signal.SIGKILL)
    end = installation.exit_of(before.driver_id)
    after = installation.runs_in_cluster(other_than=before.driver_id)

    assert end.cause == "container_lost", end
    assert end.curable
    assert installation.yarn.application(application)["finalStatus"] == "FAILED"
    assert installation.application(before) == application
    assert installation.application(after) != application
    assert installation.running() == (after.driver_id, [installation.application(after)])
    record = installation.space.store.drivers.get(before.driver_id)
    assert record is not None
    assert "LogType:stderr" in "".join(end_of_log(record, 200))


def test_a_driver_that_waits_in_a_full_queue_is_named_by_the_task_that_submitted_it(installation: OnYarn) -> None:
    """It was submitted before all of this, and no driver runs that could say it."""

    def waited() -> str | None:
        samples = installation.space.store.measurements.recent(CROWDED, 0)
        return next((sample.source for sample in samples if sample.name == WAITED and sample.value >= 60), None)

    words = wait_for("a minute in the queue", waited, timeout=LONG)
    assert words.startswith(f"resources in queue root.{NARROW_QUEUE} ("), words


def test_a_stop_ends_the_application_as_a_success(installation: OnYarn) -> None:
    """The last scenario: the driver obeys at a boundary."""
    before, airflow = installation.runs_in_cluster(), installation.airflow
    airflow.trigger("stop_stream", stream="counted", reason="the end")

    assert installation.exit_of(before.driver_id).kind is ExitKind.STOPPED
    application = installation.application(before)
    wait_for("YARN's end", lambda: installation.yarn.application(application)["state"] == "FINISHED", timeout=LONG)
    assert installation.yarn.application(application)["finalStatus"] == "SUCCEEDED"
