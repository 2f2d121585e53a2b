"""A warm standby takes over from its leader: after a kill, at a planned restart, and never with older code.

A supervisor in a thread decides, as `streamwarden start --supervise` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.supervision.standby import NOT_USED, PROMOTED, standby_state
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, waiting
from streamwarden.stream.spec import Standby, StreamSpec
from support.spark.drivers import COUNTS, Project, counted, expected_counts, producing, project, until
from support.spark.supervision import supervised

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Pair:
    """A stream with a standby."""

    def __init__(self, made: Project) -> None:
        self.project = made
        self.spec: StreamSpec = made.spec("counts", COUNTS, standby=Standby.WARM)
        self.drivers = made.data / "drivers" / "counts"

    def leader(self) -> DriverRecord | None:
        """The driver, once it has committed a batch of its own."""
        driver = self.project.store.drivers.latest("counts")
        if driver is None or driver.exit is not None or driver.process is None:
            return None
        commits = Path(self.spec.checkpoint) / "commits"
        own = [path for path in commits.glob("[0-9]*") if path.stat().st_mtime > driver.launched_at]
        return driver if own else None

    def standby(self) -> WaitingStandby | None:
        """The standby of the living leader, once it can be taken."""
        leader = self.project.store.drivers.latest("counts")
        found = next(iter(waiting(self.drivers)), None)
        if leader is None or found is None or found.record.leader != leader.driver_id:
            return None
        return found if found.is_ready(time.time()) else None

    def both(self) -> tuple[DriverRecord, WaitingStandby]:
        return until("a leader that works", self.leader), until("a standby that waits", self.standby)

    def successor_of(self, driver: DriverRecord) -> DriverRecord:
        """The next driver, once it has committed the batch of a new file."""
        self.project.publish(1)

        def next_one() -> DriverRecord | None:
            newest = self.leader()
            return newest if newest is not None and newest.driver_id != driver.driver_id else None

        return until("a successor that works", next_one, told=lambda: self.project.log(driver.driver_id))

    def events(self, driver: DriverRecord) -> dict[str, dict[str, str]]:
        return {event.kind: event.detail for event in self.project.store.drivers.events(driver.driver_id)}

    def stop(self) -> None:
        """Stop the stream; its standby ends, and each row was counted once."""
        self.project.publish(2)
        closed = self.project.published - 1
        until("the closed windows", lambda: sum(counted(self.spec).values()) >= 20 * closed, poll=0.2)
        self.project.fleet.stop("counts", requested_by="ann", reason="the end")
        until("nothing left", lambda: not self.project.living())
        assert not list(self.drivers.glob(f"*/{files.STANDBY}"))
        assert counted(self.spec) == expected_counts(closed)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with project(tmp_path) as made:
        made.publish(2)
        yield Pair(made)


def test_after_a_kill_the_standby_runs_the_stream_under_a_new_token_and_each_row_is_counted_once(pair: Pair) -> None:
    with supervised(pair.project, pair.spec):
        with producing(pair.project, every=0.5):
            leader, standby = pair.both()
            assert pair.project.store.drivers.get(standby.folder.name) is None, "a standby is no driver"
            assert files.read_lease(standby.folder) is None
            state = until(
                "its leader's word", lambda: standby_state(pair.project.store.drivers.events(leader.driver_id))
            )
            assert state.driver_id == standby.folder.name
            pair.project.fleet.kill(leader.driver_id)
            successor = pair.successor_of(leader)
        assert successor.driver_id == standby.folder.name
        assert successor.process == standby.process
        assert successor.token > leader.token
        assert PROMOTED in pair.events(successor)
        ended = pair.project.store.drivers.get(leader.driver_id)
        assert ended is not None
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.KILLED
        pair.stop()


@pytest.mark.full  # above a standby takes over; unit/services/fleet/test_waiting_standbys has one whose digest differs
def test_one_prepared_from_older_code_is_never_used_is_renewed_and_serves_a_planned_restart(pair: Pair) -> None:
    job = Path(pair.spec.job)
    with supervised(pair.project, pair.spec):
        leader, older = pair.both()
        job.write_text(f"{job.read_text()}\n# deployed\n")
        pair.project.fleet.kill(leader.driver_id)
        successor = pair.successor_of(leader)
        assert successor.driver_id != older.folder.name
        assert "the job's code" in pair.events(successor).get(NOT_USED, {}).get("because", "the job's code")
        until("the end of the older standby", lambda: not processes.is_alive(older.process))

        standby = until("its own standby", pair.standby)
        job.write_text(f"{job.read_text()}\n# deployed again\n")
        until("the end of the standby", lambda: not processes.is_alive(standby.process))
        renewed = until("a newer one", pair.standby)
        assert renewed.folder.name > standby.folder.name

        pair.project.fleet.request_stop("counts", requested_by="ann", reason="deployed", restart=True)
        restarted = pair.successor_of(successor)
        assert restarted.driver_id == renewed.folder.name
        pair.stop()


@pytest.mark.full  # in the first tier drivers/test_driver_life has a driver that was replaced and stops by itself
def test_a_leader_that_goes_on_after_the_standby_took_over_commits_nothing(pair: Pair) -> None:
    """Leader and supervisor process stand still, as on a paused host, and another host finds the lease expired."""
    spec, fleet = pair.spec, pair.project.fleet
    fleet.start(spec, launched_by="test")
    leader, standby = pair.both()
    assert fleet.freeze(leader.driver_id, supervised=False)
    with fleet.elsewhere(leader.driver_id) as other:
        until("the end of the lease", lambda: not other.start(spec, launched_by="there").reattached, poll=1.0)
    successor = pair.successor_of(leader)
    assert successor.driver_id == standby.folder.name
    pair.project.publish(1)
    assert fleet.thaw(leader.driver_id)
    outcome = until("the end of the leader", lambda: files.read_outcome(Path(leader.folder)))
    assert outcome.kind is ExitKind.FENCED
    fleet.set_running("counts", "ann", "it goes on")
    pair.stop()


@pytest.mark.full  # unit/services/fleet/test_waiting_standbys has one that was dismissed
def test_a_standby_whose_leader_is_gone_ends_by_itself(pair: Pair) -> None:
    pair.project.fleet.start(pair.spec, launched_by="test")
    leader, standby = pair.both()
    pair.project.fleet.kill(leader.driver_id)
    began = time.monotonic()
    until("its end", lambda: not processes.is_alive(standby.process), poll=1.0)
    assert time.monotonic() - began > 60, "a supervisor would have had the time to take it"
    until("nothing left", lambda: not pair.project.living())
    assert not standby.folder.exists()
