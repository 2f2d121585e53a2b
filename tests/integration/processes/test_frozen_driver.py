"""A driver that stands still: what its own host does, and what another host does, which cannot see it."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseLost
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.services.fleet.claims import LEASE_TTL
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import until


class Yard:
    """A fleet whose clock advances by two seconds each time it is read, so that a lease expires soon."""

    def __init__(self, root: Path) -> None:
        self.data = root / "var"
        self.data.mkdir()
        self.store = Store(f"sqlite:///{root / 'store.db'}")
        self.store.migrate()
        steps = itertools.count(step=2)
        self.hurry = False
        self.fleet = Fleet(self.store, self.data, clock=lambda: time.time() + (next(steps) if self.hurry else 0))
        self.spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=str(root / "cp"))
        script = self.data / "submit.sh"
        script.write_text("#!/bin/sh\nexec sleep 60\n")
        script.chmod(0o755)
        self.command = [str(script)]

    def start(self) -> tuple[str, ProcessIdentity, ProcessIdentity]:
        record = self.fleet.start(self.spec, launched_by="a", command=self.command).record
        folder = Path(record.folder)
        until("its supervisor process", lambda: (folder / files.SUPERVISOR).exists())
        document = files.read_document(folder / files.SUPERVISOR)
        assert record.process is not None
        assert document is not None
        return record.driver_id, record.process, ProcessIdentity(**document)

    def close(self) -> None:
        for folder in (self.data / "drivers").glob("*/*"):
            process, supervisor = files.read_process(folder), files.read_document(folder / files.SUPERVISOR)
            if supervisor is not None:
                processes.signal_one(ProcessIdentity(**supervisor), signal.SIGCONT)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
                until("its end", lambda f=folder: (f / files.EXIT).exists())  # type: ignore[misc]
        self.store.close()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("supervised", [True, False])
def test_a_driver_stands_still_until_it_is_thawed(yard: Yard, supervised: bool) -> None:
    driver, process, supervisor = yard.start()
    assert yard.fleet.freeze(driver, supervised=supervised)
    assert processes.is_stopped(process)
    if not supervised:
        until("the supervisor process stands still", lambda: processes.is_stopped(supervisor))
    assert yard.fleet.is_running(driver)
    assert yard.fleet.thaw(driver)
    until("it goes on", lambda: not processes.is_stopped(process) and not processes.is_stopped(supervisor))
    assert not yard.fleet.thaw(driver)


def test_a_driver_that_has_ended_neither_stands_still_nor_runs(yard: Yard) -> None:
    driver, process, _ = yard.start()
    yard.fleet.kill(driver)
    until("its end", lambda: not processes.is_alive(process))
    assert not yard.fleet.freeze(driver)
    assert not yard.fleet.thaw(driver)
    assert not yard.fleet.is_running(driver)
    assert not yard.fleet.freeze("counts-20260101T000000-ffffffff")


def test_its_own_host_reattaches_to_it_and_another_host_replaces_it_when_the_lease_has_expired(yard: Yard) -> None:
    driver, process, _ = yard.start()
    lease = yard.store.leases.current(yard.spec.checkpoint)
    assert lease is not None
    assert yard.fleet.freeze(driver, supervised=False)
    assert yard.fleet.start(yard.spec, launched_by="here", command=yard.command).reattached
    with yard.fleet.elsewhere(driver) as other:
        assert other.start(yard.spec, launched_by="there", command=yard.command).reattached, "the lease is valid"
        yard.hurry = True
        started = [other.start(yard.spec, launched_by="there", command=yard.command)]
        while started[-1].record.driver_id == driver:
            started.append(other.start(yard.spec, launched_by="there", command=yard.command))
    yard.hurry = False
    successor = started[-1].record
    assert not started[-1].reattached
    assert successor.token > lease.token
    assert processes.is_alive(process), "it still stands there"
    assert yard.fleet.thaw(driver)
    with pytest.raises(LeaseLost, match=successor.driver_id):
        yard.store.leases.renew(lease, ttl=LEASE_TTL, now=time.time())
