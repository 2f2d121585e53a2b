"""After an outage of the store the leases of all drivers on other hosts have expired, of the living and of the dead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ProcessIdentity
from streamwarden.lifecycle.lease import Lease
from streamwarden.services.fleet import driver_lookup, starting
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.exits.lease_grace import GRACE
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import StreamSpec
from support.clock import time_with

ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
POLL = 0.5


@dataclass
class Abroad:
    """A driver of another host, which has renewed at 0 and not since; the observer looks every half second."""

    store: Store
    data: Path
    spec: StreamSpec
    record: DriverRecord
    lease: Lease
    now: float = 0.0

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.store, self.data, clock=lambda: self.now)

    def watch(self, until: float) -> bool:
        """Look until then; whether it lives, at the last look."""
        alive = True
        while self.now <= until:
            alive = self.fleet.observe(self.record.driver_id).alive
            self.now += POLL
        return alive

    def exit(self) -> Any:
        found = self.store.drivers.get(self.record.driver_id)
        assert found is not None
        return found.exit

    @property
    def temporary(self) -> Path:
        return Path(self.record.folder) / files.TEMPORARY


@pytest.fixture
def abroad(store_url: str, tmp_path: Path) -> Iterator[Abroad]:
    spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=str(tmp_path / "cp"))
    record = DriverRecord(
        driver_id="counts-20260101T000000-00000001",
        stream="counts",
        checkpoint=spec.checkpoint,
        token=1,
        folder=str(tmp_path / "var/drivers/counts/counts-20260101T000000-00000001"),
        launched_by="test",
        launched_at=0.0,
    )
    (Path(record.folder) / files.TEMPORARY).mkdir(parents=True)
    files.write_process(Path(record.folder), ELSEWHERE)
    with Store(store_url) as store:
        claim = store.leases.acquire(spec.checkpoint, stream="counts", holder=record.driver_id, ttl=LEASE_TTL, now=0)
        lease = store.leases.bind(claim, ELSEWHERE, ttl=LEASE_TTL, now=0)
        store.drivers.launched(record)
        store.drivers.bound(record.driver_id, ELSEWHERE)
        yield Abroad(store, tmp_path / "var", spec, record, lease)


def test_a_driver_that_finds_the_store_back_later_than_its_observer_is_left_alone(abroad: Abroad) -> None:
    abroad.now = LEASE_TTL + 5
    seen = abroad.fleet.observe(abroad.record.driver_id)
    assert (seen.alive, seen.expired, seen.exit) == (True, True, None)
    assert abroad.watch(until=LEASE_TTL + 7)
    abroad.store.leases.renew(abroad.lease, ttl=LEASE_TTL, now=abroad.now)
    seen = abroad.fleet.observe(abroad.record.driver_id)
    assert (seen.alive, seen.expired, abroad.exit()) == (True, False, None)
    assert abroad.temporary.is_dir()


def test_one_that_does_not_come_back_is_dead_after_the_grace_and_keeps_its_temporary_files(abroad: Abroad) -> None:
    """Nobody saw its end: it may only be cut off from the store."""
    abroad.now = LEASE_TTL
    assert abroad.watch(until=LEASE_TTL + GRACE - POLL)
    assert not abroad.watch(until=LEASE_TTL + GRACE + POLL)
    assert abroad.exit().kind is ExitKind.KILLED
    lease = abroad.store.leases.current(abroad.spec.checkpoint)
    assert lease is not None
    assert lease.released_at is not None
    assert abroad.temporary.is_dir()


def test_one_that_was_watched_all_the_time_is_dead_when_its_lease_expires(abroad: Abroad) -> None:
    """The store answered, and the driver did not renew: there was no outage after which it needs a grace."""
    assert abroad.watch(until=LEASE_TTL - POLL)
    assert not abroad.watch(until=LEASE_TTL)
    assert abroad.exit().kind is ExitKind.KILLED


@pytest.mark.parametrize("outage", [3.0, 25.0])
def test_an_outage_before_the_expiry_leaves_the_whole_grace(abroad: Abroad, outage: float) -> None:
    back = LEASE_TTL - POLL
    assert abroad.watch(until=back - outage)
    abroad.now = back
    assert abroad.watch(until=back + GRACE - 2 - POLL)  # a look says that the store answered for two seconds before it
    assert not abroad.watch(until=back + GRACE + POLL)


def test_the_time_of_a_second_outage_is_no_grace(abroad: Abroad) -> None:
    """Back for a moment, away for minutes, back again: the driver has had that moment only."""
    abroad.now = 100.0
    assert abroad.fleet.observe(abroad.record.driver_id).alive
    abroad.now = 400.0
    assert abroad.fleet.observe(abroad.record.driver_id).alive


def test_a_start_waits_for_a_driver_that_may_live_and_finds_it(abroad: Abroad, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart that was asked for during the outage must not claim the checkpoint of a running stream."""
    slept = []

    def renewed_after_two_seconds(seconds: float) -> None:
        slept.append(seconds)
        abroad.now += seconds
        if sum(slept) >= 2:
            abroad.store.leases.renew(abroad.lease, ttl=LEASE_TTL, now=abroad.now)

    monkeypatch.setattr(driver_lookup, "time", time_with(renewed_after_two_seconds))
    abroad.now = LEASE_TTL + 5
    started = abroad.fleet.start(abroad.spec, launched_by="ann")
    assert (started.reattached, started.record.driver_id) == (True, abroad.record.driver_id)
    assert (sum(slept), abroad.exit()) == (2, None)


def test_start_proceeds_after_the_grace_when_no_driver_lives(abroad: Abroad, monkeypatch: pytest.MonkeyPatch) -> None:
    class Launched(Exception):
        """It came as far as the claim."""

    def claim(*arguments: Any, **options: Any) -> Any:
        raise Launched

    def sleep(seconds: float) -> None:
        abroad.now += seconds

    monkeypatch.setattr(driver_lookup, "time", time_with(sleep))
    monkeypatch.setattr(starting, "claim", claim)
    monkeypatch.setattr(starting, "driver_environment", lambda *_, **__: {})
    abroad.now = LEASE_TTL + 5
    with pytest.raises(Launched):
        abroad.fleet.start(abroad.spec, launched_by="ann")
    assert abroad.now == pytest.approx(LEASE_TTL + 5 + GRACE)
    assert abroad.exit().kind is ExitKind.KILLED


def test_a_launch_that_is_not_bound_yet_runs_no_query_and_ends_with_its_claim(abroad: Abroad, tmp_path: Path) -> None:
    spec = replace(abroad.spec, checkpoint=str(tmp_path / "other"))
    record = replace(
        abroad.record, driver_id="x-1", stream="x", checkpoint=spec.checkpoint, folder=str(tmp_path / "x-1")
    )
    abroad.store.leases.acquire(spec.checkpoint, stream="x", holder="x-1", ttl=LEASE_TTL, now=0)
    abroad.store.drivers.launched(record)
    abroad.now = LEASE_TTL - 1
    assert abroad.fleet.observe("x-1").alive
    abroad.now = LEASE_TTL
    assert not abroad.fleet.observe("x-1").alive


@pytest.mark.parametrize("skew", [90.0, -90.0, 7200.0, -7200.0], ids="this clock is {0:+.0f} s ahead".format)
def test_a_start_says_by_how_much_the_clocks_of_two_hosts_differ_and_reattaches(
    abroad: Abroad, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    """The driver renews every 5 s by its own clock; this host's clock is `skew` seconds ahead of that."""
    theirs = 100.0
    said: list[str] = []
    abroad.lease = abroad.store.leases.renew(abroad.lease, ttl=LEASE_TTL, now=theirs)

    def sleep(seconds: float) -> None:
        nonlocal theirs
        theirs += seconds
        abroad.now = theirs + skew
        assert theirs < 100 + LEASE_TTL, "it waits for ever"
        if theirs % 5 == 0:
            abroad.store.leases.renew(abroad.lease, ttl=LEASE_TTL, now=theirs)

    monkeypatch.setattr(driver_lookup, "time", time_with(sleep))
    abroad.now = theirs + skew
    started = abroad.fleet.start(abroad.spec, launched_by="ann", announce=said.append)
    assert (started.reattached, started.record.driver_id, abroad.exit()) == (True, abroad.record.driver_id, None)
    assert theirs <= 100 + 5 + POLL
    assert "waiting to see whether it is renewed" in said[0]
    way = "behind" if skew > 0 else "ahead of"
    assert f"the clock of elsewhere is about {abs(skew):.0f} s {way} this host's" in said[-1]
    while theirs < 100 + LEASE_TTL - POLL:  # a supervisor goes on to watch it
        sleep(POLL)
        assert abroad.fleet.observe(abroad.record.driver_id).alive


@pytest.mark.parametrize("skew", [90.0, -7200.0], ids="this clock is {0:+.0f} s ahead".format)
def test_a_dead_driver_of_a_host_with_another_clock_is_found_dead_in_time(abroad: Abroad, skew: float) -> None:
    """A lease that says that it lasts for two hours more does not keep the stream down for two hours."""
    abroad.now = skew
    assert abroad.watch(until=skew + GRACE - POLL)
    assert not abroad.watch(until=skew + LEASE_TTL + GRACE + POLL)
    assert abroad.exit().kind is ExitKind.KILLED
    assert abroad.store.leases.acquire(abroad.spec.checkpoint, stream="counts", holder="x", ttl=30, now=abroad.now)


@pytest.mark.parametrize(
    "offsets",
    [[60.0001, 60.0003, 60.0002], [-60.0001, -60.0003, -60.0002], [2.0001, 0.0]],
    ids=["store ahead", "store behind", "about as far as counts"],
)
def test_an_inexact_comparison_with_the_clock_of_the_store_is_no_renewal(
    abroad: Abroad, monkeypatch: pytest.MonkeyPatch, offsets: list[float]
) -> None:
    """Each read compares the two clocks again, so a row that nobody has touched has other times in each."""
    measured = cycle(offsets)
    monkeypatch.setattr(abroad.store.leases, "_offset", lambda connection: next(measured))
    abroad.now = LEASE_TTL + 61
    assert abroad.fleet.observe(abroad.record.driver_id).alive
    assert not abroad.watch(until=abroad.now + 2 * LEASE_TTL + GRACE)
    assert abroad.exit().kind is ExitKind.KILLED


def test_a_renewal_by_a_clock_that_was_set_back_counts(abroad: Abroad, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder's clock was set back by an hour; it renews all the same."""
    measured = cycle([60.0001, 60.0003])
    abroad.now = LEASE_TTL + 100
    monkeypatch.setattr(abroad.store.leases, "_offset", lambda connection: next(measured))
    for second in range(0, 60, 5):
        abroad.store.leases.renew(abroad.lease, ttl=LEASE_TTL, now=second - 3600.0)
        assert abroad.watch(until=abroad.now + 5)


def test_clocks_that_differ_by_less_than_a_lease_are_left_at_that(abroad: Abroad) -> None:
    said: list[str] = []
    abroad.now = -20.0
    assert abroad.fleet.start(abroad.spec, launched_by="ann", announce=said.append).reattached
    assert said == []
