"""A driver that dies every few batches: how much its next start has to replay, with our settings and with Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.lifecycle.submission import MIN_DELTAS_FOR_SNAPSHOT
from streamwarden.stream import SparkSpec, TriggerSpec
from support.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LIVES, BATCHES = 5, 5
PACE = TriggerSpec(processing_time=1.0)
"""A life then lasts for two uploads, however fast the machine is: one begins every two seconds."""

SPARKS_OWN = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "60s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "10",
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        it.publish(LIVES * BATCHES + 20)
        yield it


def debts_of_a_crash_loop(made: Project, name: str, conf: dict[str, str]) -> list[int]:
    """Changelogs that a start would replay, after each of the lives, which ends as soon as its last batch is there."""
    spark = SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=QUICK | conf)
    spec = made.spec(name, COUNTS, spark=spark, trigger=PACE)
    debts = []
    for life in range(1, LIVES + 1):
        driver = made.start(spec)
        made.await_batches(spec, life * BATCHES)
        assert made.fleet.kill(driver)
        until("nothing left", lambda: not made.living())
        report = read_checkpoint(open_path(spec.checkpoint))
        debts.append(max(store.replay.versions for store in report.stores))
    return debts


def test_a_crash_loop_does_not_pile_up_what_the_next_start_replays(made: Project) -> None:
    """A snapshot is due after some batches and uploaded two seconds later: a life or so after it became due."""
    debts = debts_of_a_crash_loop(made, "ours", {})
    assert max(debts[1:]) <= MIN_DELTAS_FOR_SNAPSHOT + 2 * BATCHES, debts
    assert debts[-1] < LIVES * BATCHES / 2, debts


def test_with_sparks_own_settings_it_does(made: Project) -> None:
    """The other way round, to show that the test above can fail: nothing is uploaded within the first minute."""
    debts = debts_of_a_crash_loop(made, "sparks", SPARKS_OWN)
    assert debts == sorted(debts)
    assert debts[-1] >= LIVES * BATCHES - 1, debts
