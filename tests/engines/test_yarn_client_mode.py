"""Streams in client mode on a real YARN: the driver on its own host, its executors in containers.

One stream runs while an executor's container is killed and while the ResourceManager is killed and started again; each
time the same driver goes on. Another one waits in a queue that has no room for it, and is named after a minute. At last
somebody kills the application of the first one: Spark leaves its driver, which ends by itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.health.checks.driver import resources_pending
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.spark.executors.watch import EXECUTOR_LOST
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.servers.hadoop import DEFAULT_QUEUE, NARROW_QUEUE, RESOURCE_MANAGER, Yarn
from support.spark.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(900)]

EXECUTOR = "YarnCoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("project")) as opened:
        yield opened


def stream(made: Project, yarn: Yarn, name: str, queue: str = DEFAULT_QUEUE) -> StreamSpec:
    executors = ExecutorsSpec(instances=1, cores=1, memory=600 * 2**20)
    conf = {**QUICK, **yarn.spark_conf(sys.executable)}
    spark = SparkSpec(master="yarn", queue=queue, driver_memory=700 * 2**20, executors=executors, conf=conf)
    return made.spec(name, COUNTS, spark=spark)


def start(made: Project, yarn: Yarn, spec: StreamSpec) -> str:
    return made.start(spec, env={"HADOOP_CONF_DIR": str(yarn.conf)})


@pytest.fixture(scope="module")
def waits(made: Project, yarn: Yarn) -> StreamSpec:
    """A stream that was started in a queue without room, before all others: it waits while they run."""
    spec = stream(made, yarn, "crowded", NARROW_QUEUE)
    start(made, yarn, spec)
    return spec


@pytest.fixture(scope="module")
def runs(made: Project, yarn: Yarn, waits: StreamSpec) -> StreamSpec:
    """A stream that has committed batches."""
    made.publish(2)
    spec = stream(made, yarn, "counted")
    start(made, yarn, spec)
    made.await_batches(spec, 2)
    return spec


def drivers_after_a_batch(made: Project, spec: StreamSpec) -> list[str]:
    """The drivers that the stream has had, after a commit of new input."""
    made.publish(1)
    made.await_batches(spec, made.committed(spec) + 1)
    return [record.driver_id for record in made.store.drivers.history(spec.name, 0)]


def application(yarn: Yarn, driver: str) -> str:
    """The only application of a driver: it has the driver's id as a tag."""
    (found,) = yarn.applications(applicationTags=driver.lower())
    return str(found["id"])


def newest(made: Project, spec: StreamSpec) -> str:
    record = made.store.drivers.latest(spec.name)
    assert record is not None
    return record.driver_id


def test_a_batch_goes_on_when_the_container_of_its_executor_is_killed(
    made: Project, yarn: Yarn, runs: StreamSpec
) -> None:
    """Spark asks for another container, and the loss is an event of the driver."""
    driver = newest(made, runs)
    containers = yarn.containers(application(yarn, driver))
    (executor,) = [process for process in containers if EXECUTOR in " ".join(process.cmdline())]
    executor.send_signal(signal.SIGKILL)

    assert drivers_after_a_batch(made, runs) == [driver]
    until("the loss is recorded", lambda: _lost(made, driver))


def _lost(made: Project, driver: str) -> bool:
    return any(event.kind == EXECUTOR_LOST for event in made.store.drivers.events(driver))


def test_a_stream_goes_on_while_the_resource_manager_is_gone_and_when_it_is_back(
    made: Project, yarn: Yarn, runs: StreamSpec
) -> None:
    """The ResourceManager finds the application in its state; nothing is started again."""
    driver = newest(made, runs)
    before = application(yarn, driver)
    yarn.kill(RESOURCE_MANAGER)
    assert drivers_after_a_batch(made, runs) == [driver]
    yarn.start(RESOURCE_MANAGER)
    yarn.await_open()

    assert drivers_after_a_batch(made, runs) == [driver]
    until("it runs as far as YARN knows", lambda: yarn.application(before)["state"] == "RUNNING")
    assert application(yarn, driver) == before


def test_an_application_that_waits_in_a_queue_is_named_after_a_minute(
    made: Project, yarn: Yarn, waits: StreamSpec, runs: StreamSpec
) -> None:
    """The verdict names the queue and repeats what the ResourceManager says. A stream that runs waits for nothing."""

    def verdict(spec: StreamSpec) -> tuple[Status, str]:
        samples = made.store.measurements.recent(spec.name, 0)
        drivers = tuple(made.store.drivers.history(spec.name, 0))
        now = max((sample.at for sample in samples), default=drivers[-1].launched_at)
        window = Window(spec=spec, now=now, measurements=tuple(samples), drivers=drivers, driver_alive=True)
        found = resources_pending.check(window, DEFAULTS)
        return found.status, found.reason

    until("it has waited for a minute", lambda: verdict(waits)[0] is Status.WARNING)
    assert f"it waits for resources in queue root.{NARROW_QUEUE} (" in verdict(waits)[1]
    assert verdict(runs)[0] is Status.OK

    yarn.kill_application(application(yarn, newest(made, waits)))
    end = made.await_end(newest(made, waits))
    assert end.kind is ExitKind.FAILED, end


def test_a_stop_ends_the_application_at_a_boundary(made: Project, yarn: Yarn, runs: StreamSpec) -> None:
    """YARN calls it finished, and one attempt was made."""
    driver = newest(made, runs)
    made.fleet.stop(runs.name, requested_by="test", reason="the end")

    assert made.await_end(driver).kind is ExitKind.STOPPED
    before = application(yarn, driver)
    until("it has ended on YARN", lambda: yarn.application(before)["state"] == "FINISHED")
    assert len(yarn.rest(f"cluster/apps/{before}/appattempts")["appAttempts"]["appAttempt"]) == 1
    until("its containers are gone", lambda: not yarn.containers(before))
    assert Path(runs.checkpoint).is_dir()


def test_a_driver_whose_application_is_killed_ends_with_a_cause(made: Project, yarn: Yarn, runs: StreamSpec) -> None:
    """As `yarn application -kill` does."""
    driver = start(made, yarn, runs)
    made.publish(1)
    made.await_batches(runs, made.committed(runs) + 1)
    yarn.kill_application(application(yarn, driver))

    end = made.await_end(driver)
    assert (end.kind, end.curable, end.cause) == (ExitKind.FAILED, True, "application_ended"), end
