"""A driver whose store is PostgreSQL: killed in mid-batch, started again, and all of it is in the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.verification import read_facts
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream import TriggerSpec
from support.drivers import COUNTS, Project, project, until
from support.mid_batch import kill_in_mid_batch
from support.postgres_server import running

pytestmark = pytest.mark.spark

FILES = 6


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with running() as server, project(tmp_path, server.create("streamwarden")) as it:
        it.publish(FILES)
        yield it


def test_a_killed_driver_and_its_successor_leave_no_gap_in_the_store(made: Project) -> None:
    spec = made.spec("counts", COUNTS, trigger=TriggerSpec(available_now=True))
    cut = kill_in_mid_batch(made, spec, after=1)
    end = made.await_end(made.start(spec))
    assert end.kind is ExitKind.COMPLETED, end
    history = made.store.drivers.history("counts", 0.0)
    assert sorted(str(driver.exit.kind) for driver in history if driver.exit) == ["completed", "killed"]
    assert sorted(driver.token for driver in history) == [1, 2]
    committed = read_facts(spec).committed
    assert committed is not None
    assert committed >= cut
    query = history[0].query_id
    assert query is not None
    assert made.store.batches.missing("counts", query, committed) == ()
    summary = made.store.batches.summary("counts")
    assert summary.batches == committed + 1
    assert summary.rows == FILES * 20 or summary.unreported > 0
    until("the release of the lease", lambda: (now := made.store.leases.current(spec.checkpoint)) and now.released_at)
