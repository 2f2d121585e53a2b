"""A driver that is launched after one that is cut off writes a fence first; the old one finds it and ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseLost
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.hosts.fence import SETTLES, SUSPECT_AFTER, Fence, fence_of
from streamwarden.lifecycle.lease import Lease
from streamwarden.services.fleet.claims import claim
from streamwarden.services.fleet.hosts import fencing
from streamwarden.services.fleet.hosts.fencing import FENCED_OFF, fence_off, look, withdraw
from streamwarden.spark.watches.fence import FenceWatch
from streamwarden.stream.spec import StreamSpec

ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)


@dataclass
class Takeover:
    """A driver on another host, and one that takes its stream over."""

    store: Store
    spec: StreamSpec
    data: Path
    slept: list[float] = field(default_factory=list)
    now: float = 0.0

    def launch(self, process: ProcessIdentity) -> tuple[DriverRecord, Lease]:
        """A driver, after the lease of the one before has expired."""
        self.now += 100.0
        record, lease = claim(self.store, self.data, self.spec, launched_by="test", ttl=30.0, now=self.now)
        self.store.drivers.launched(record)
        fence_off(self.store, self.spec, record, lease, at=self.now, sleep=self.slept.append)
        self.store.leases.bind(lease, process, ttl=30.0, now=self.now)
        self.store.drivers.bound(record.driver_id, process)
        return record, lease

    @property
    def fence(self) -> Path:
        return Path(fence_of(self.spec.checkpoint))

    def watch(self, lease: Lease, silent_for: float) -> tuple[FenceWatch, list[LeaseLost]]:
        lost: list[LeaseLost] = []
        return FenceWatch(lambda: lease, lambda: 0.0, lost.append, clock=lambda: silent_for), lost


@pytest.fixture
def takeover(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Takeover]:
    """The store is a file, which would need no fence."""
    monkeypatch.setattr(Store, "is_server", property(lambda self: True))
    spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=str(tmp_path / "cp"))
    with Store(store_url) as store:
        yield Takeover(store, spec, tmp_path / "var")


def test_the_old_driver_ends_only_if_it_is_cut_off_and_taken_over(takeover: Takeover) -> None:
    _, old = takeover.launch(ELSEWHERE)
    assert (takeover.fence.exists(), takeover.slept) == (False, [])
    record, new = takeover.launch(ELSEWHERE)
    assert takeover.slept == [SETTLES], "and the new one waits until it has ended"
    event = takeover.store.drivers.events(record.driver_id)[0]
    assert (event.kind, event.detail["host"]) == (FENCED_OFF, "elsewhere")
    watch, lost = takeover.watch(old, SUSPECT_AFTER - 1)
    assert (watch.turn(), lost) == (False, []), "as long as it reaches the store, the store tells it"
    watch, lost = takeover.watch(old, SUSPECT_AFTER)
    assert watch.turn()
    assert record.driver_id in str(lost[0])
    watch, lost = takeover.watch(new, SUSPECT_AFTER)
    assert (watch.turn(), lost) == (False, []), "the new one is not kept out by its own fence"


def test_an_outage_of_the_store_ends_nothing_and_leaves_nothing(takeover: Takeover) -> None:
    _, lease = takeover.launch(ELSEWHERE)
    silent = [SUSPECT_AFTER]
    watch = FenceWatch(lambda: lease, lambda: 0.0, pytest.fail, clock=lambda: silent[0])
    assert not watch.turn()
    assert takeover.fence.exists(), "its own, which makes a client of NFS ask the server from now on"
    assert not watch.turn()
    silent[0] = 0.0
    assert not watch.turn()
    assert not takeover.fence.exists()


def test_a_driver_whose_end_was_seen_is_not_fenced(takeover: Takeover) -> None:
    takeover.launch(ProcessIdentity(host=this_host(), pid=os.getpid(), started_at=-1))
    takeover.launch(ELSEWHERE)
    assert (takeover.fence.exists(), takeover.slept) == (False, [])


def test_no_fence_no_start(takeover: Takeover, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: storage that takes no fence must not be taken for storage without another writer."""

    def refused(path: Path, text: str) -> None:
        raise OSError(30, "read-only file system", str(path))

    takeover.launch(ELSEWHERE)
    monkeypatch.setattr(fencing.disk, "replace", refused)
    with pytest.raises(OSError, match="read-only"):
        takeover.launch(ELSEWHERE)


def test_a_file_as_store_needs_no_fence(takeover: Takeover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "is_server", property(lambda self: False))
    takeover.launch(ELSEWHERE)
    takeover.launch(ELSEWHERE)
    assert not takeover.fence.exists()


def test_a_fence_of_an_earlier_store_keeps_no_new_driver_out(takeover: Takeover) -> None:
    """The store was replaced by an empty one, whose tokens begin at 1 again."""
    own = Fence(token=9, holder="before", host="elsewhere", at=0.0)
    assert look(takeover.spec.checkpoint, None, own) == own
    record, lease = takeover.launch(ELSEWHERE)
    watch, lost = takeover.watch(lease, SUSPECT_AFTER)
    assert (watch.turn(), lost) == (False, [])
    assert record.driver_id in takeover.fence.read_text()


def test_only_the_own_fence_is_withdrawn(takeover: Takeover) -> None:
    fence = Fence(token=9, holder="new", host="here", at=0.0)
    look(takeover.spec.checkpoint, None, fence)
    withdraw([takeover.spec.checkpoint], None, replace(fence, holder="old"))
    assert takeover.fence.exists()
    withdraw([takeover.spec.checkpoint], None, fence)
    assert not takeover.fence.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"token": "many"}'])
def test_a_fence_that_is_being_written_ends_nothing(takeover: Takeover, text: str) -> None:
    _, lease = takeover.launch(ELSEWHERE)
    takeover.fence.write_text(text)
    watch, lost = takeover.watch(lease, SUSPECT_AFTER)
    assert (watch.turn(), lost) == (False, [])
