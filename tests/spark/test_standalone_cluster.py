"""event_windows on a real standalone cluster: its executor killed in mid-batch, then its only worker lost and another
one joined, and not a row lost or doubled.

The driver lives on, on its own host, supervised as ever; Spark gives its tasks to a new executor, which loads the state
from the checkpoint.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.adapters.verification import verify
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream import Backend, SparkSpec, StreamSpec
from support.drivers import QUICK, Project, project, until
from support.job_runs import publish, stream
from support.mid_batch import newest
from support.spark_cluster import Cluster, cluster

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS = 12, 50


def lines(number: int) -> list[str]:
    chance = random.Random(number)
    begin = START + timedelta(seconds=90 * number)
    return [
        json.dumps(
            {
                "event_time": f"{begin + timedelta(seconds=chance.randrange(90)):%Y-%m-%dT%H:%M:%S}.000Z",
                "user_id": chance.randrange(4),
                "action": "view",
            }
        )
        for _ in range(EVENTS)
    ]


@dataclass
class Ran:
    """What happened."""

    project: Project
    spec: StreamSpec
    driver: str
    struck: int
    """The batch that was planned and not committed when its executor was killed."""
    lost: int
    """The batch that was planned and not committed when the worker was lost."""
    launched: int
    """Executors that the workers launched for it."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with cluster() as spark, project(tmp_path_factory.mktemp("cluster")) as home:
        spec = on_cluster(stream("event_windows", home.data, Backend.ROCKSDB), spark)
        publish(Path(str(spec.source.path)), [lines(number) for number in range(FILES)])
        driver = home.start(spec)
        struck = kill_the_executor(home, spec, driver, spark)
        lost = lose_the_worker(home, spec, driver, spark, after=struck)
        ended = home.await_end(driver)
        assert ended.kind is ExitKind.COMPLETED, home.log(driver)
        yield Ran(home, spec, driver, struck, lost, spark.launched())


def on_cluster(spec: StreamSpec, spark: Cluster) -> StreamSpec:
    conf = {"spark.executor.memory": "600m", "spark.cores.max": "1", "spark.driver.host": "127.0.0.1"}
    return replace(spec, spark=SparkSpec(master=spark.url, driver_memory=700 * 2**20, conf={**QUICK, **conf}))


def kill_the_executor(home: Project, spec: StreamSpec, driver: str, spark: Cluster) -> int:
    """SIGKILL while a batch behind the second runs on it; returns the batch."""

    def struck() -> int | None:
        planned, committed = newest(spec.checkpoint, "offsets"), newest(spec.checkpoint, "commits")
        executors = spark.executors() if planned > max(committed, 2) else []
        if not executors:
            return None
        executors[0].send_signal(signal.SIGKILL)
        return planned if newest(spec.checkpoint, "commits") < planned else None

    return until("an executor in mid-batch", struck, poll=0.002, told=lambda: home.log(driver)) or -1


def lose_the_worker(home: Project, spec: StreamSpec, driver: str, spark: Cluster, *, after: int) -> int:
    """While a batch runs on it, behind the one that the executor was killed in; then another one joins."""

    def lost() -> int | None:
        planned, committed = newest(spec.checkpoint, "offsets"), newest(spec.checkpoint, "commits")
        if not (planned > committed > after and spark.executors()):
            return None
        spark.lose_worker()
        in_time = newest(spec.checkpoint, "commits") < planned
        spark.add_worker()
        return planned if in_time else None

    return until("a worker in mid-batch", lost, poll=0.002, told=lambda: home.log(driver)) or -1


def test_an_executor_and_then_a_worker_lost_in_mid_batch_change_no_row(ran: Ran) -> None:
    outcome = verify(ran.spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == FILES * EVENTS
    assert outcome.expected > 2


def test_the_executors_were_replaced_and_the_driver_was_not(ran: Ran) -> None:
    assert ran.struck >= 3
    assert ran.lost > ran.struck
    assert ran.launched >= 3
    drivers = ran.project.store.drivers.latest(ran.spec.name)
    assert drivers is not None
    assert drivers.driver_id == ran.driver
