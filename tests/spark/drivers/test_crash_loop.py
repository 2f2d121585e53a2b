"""A driver that dies every few batches: how much its next start has to replay, with our settings and with Spark's.

Both streams live side by side: a life is mostly the wait for its batches, one a second.

In the first tier unit tests hold the settings, and test_fork_run the snapshots that Spark then uploads.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.lifecycle.submission import MIN_DELTAS_FOR_SNAPSHOT
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from support.spark.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(600)]

LIVES, BATCHES = 5, 5
PACE = TriggerSpec(processing_time=1.0)
"""A life then lasts for two uploads, however fast the machine is: one begins every two seconds."""

SPARKS_OWN = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "60s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "10",
}
SETTINGS: dict[str, dict[str, str]] = {"ours": {}, "sparks": SPARKS_OWN}


def stream(made: Project, name: str) -> StreamSpec:
    spark = SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=QUICK | SETTINGS[name])
    return made.spec(name, COUNTS, spark=spark, trigger=PACE)


@pytest.fixture(scope="module")
def debts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[int]]]:
    """Name of the settings -> changelogs that a start would replay, after each of the lives. A life ends as soon as its
    last batch is there."""
    with project(tmp_path_factory.mktemp("crash_loop")) as made:
        made.publish(LIVES * BATCHES + 20)
        specs = {name: stream(made, name) for name in SETTINGS}
        found: dict[str, list[int]] = {name: [] for name in specs}
        for life in range(1, LIVES + 1):
            living = {name: made.start(spec) for name, spec in specs.items()}

            def ended(number: int = life, living: dict[str, str] = living) -> bool:
                for name in [name for name in living if made.committed(specs[name]) >= number * BATCHES]:
                    assert made.fleet.kill(living.pop(name))
                for driver in living.values():
                    assert made.fleet.observe(driver).alive, made.log(driver)
                return not living

            until(f"the end of life {life} of both", ended)
            until("nothing left", lambda: not made.living())
            for name, spec in specs.items():
                found[name].append(
                    max(store.replay.versions for store in read_checkpoint(open_path(spec.checkpoint)).stores)
                )
        yield found


def test_a_crash_loop_does_not_pile_up_what_the_next_start_replays(debts: dict[str, list[int]]) -> None:
    """A snapshot is due after some batches and uploaded two seconds later: a life or so after it became due."""
    ours = debts["ours"]
    assert len(ours) == LIVES
    assert max(ours[1:]) <= MIN_DELTAS_FOR_SNAPSHOT + 2 * BATCHES, ours
    assert ours[-1] < LIVES * BATCHES / 2, ours


def test_with_sparks_own_settings_it_does(debts: dict[str, list[int]]) -> None:
    """The other way round, to show that the test above can fail: nothing is uploaded within the first minute."""
    sparks = debts["sparks"]
    assert sparks == sorted(sparks)
    assert sparks[-1] >= LIVES * BATCHES - 1, sparks
