"""Drivers whose store is PostgreSQL: one that is killed in mid-batch, and one that two hosts want to start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.verifying.verification import read_facts
from streamwarden.stream.spec import TriggerSpec
from support.servers.postgres_server import PostgreSQL
from support.spark.drivers import COUNTS, Project, project, until
from support.spark.mid_batch import kill_in_mid_batch

pytestmark = pytest.mark.spark

FILES = 6


@pytest.fixture(scope="module")
def made(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("postgresql")
    with project(root, postgresql.create("streamwarden")) as it:
        it.publish(FILES)
        yield it


@pytest.mark.full  # in the first tier test_driver_life has it on SQLite; below drivers run on PostgreSQL
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


def test_two_hosts_with_two_data_folders_get_one_driver_and_either_of_them_stops_it(
    made: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other host sees neither the driver's process nor its folders: the store is all that they share."""
    spec = made.spec("shared", COUNTS)
    first = made.start(spec)
    running_one = until("the query", lambda: (now := made.store.drivers.get(first)) and now.run_id and now)
    claimed = made.store.leases.current("stream:shared")
    until("a renewal", lambda: made.store.leases.current("stream:shared") != claimed)
    with monkeypatch.context() as elsewhere, Store(made.url) as store:
        elsewhere.setattr(processes, "this_host", lambda: "elsewhere/boot/1")
        other = Fleet(store, tmp_path / "var")
        there = replace(spec, checkpoint=str(tmp_path / "var" / "checkpoints" / "shared"))
        with pytest.raises(LeaseHeld) as caught:
            other.start(there, launched_by="the other host")
        assert not (tmp_path / "var").exists()
        assert other.observe(first).alive
        assert other.request_stop("shared", requested_by="the other host", reason="test") is not None
    assert running_one.process is not None
    for part in (first, running_one.process.host, f"pid {running_one.process.pid}", spec.checkpoint, "data folder"):
        assert part in str(caught.value)
    assert made.await_end(first).kind is ExitKind.STOPPED
    assert [driver.driver_id for driver in made.store.drivers.history("shared", 0.0)] == [first]
