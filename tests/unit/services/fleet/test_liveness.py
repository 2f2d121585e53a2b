"""Whether a driver is alive: its exit decides, then its process, then its lease."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Claim, Lease
from streamwarden.services.fleet.exits.liveness import is_alive

NOW = 1000.0
ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
DEAD = ProcessIdentity(host=processes.this_host(), pid=1, started_at=-1)


def record(
    folder: Path, *, process: ProcessIdentity | None = ELSEWHERE, exit: ExitRecord | None = None
) -> DriverRecord:
    return DriverRecord(
        driver_id="s-1",
        stream="s",
        checkpoint="/c",
        token=1,
        folder=str(folder),
        launched_by="t",
        launched_at=NOW - 60,
        process=process,
        exit=exit,
    )


def lease(
    *,
    holder: str = "s-1",
    process: ProcessIdentity | None = ELSEWHERE,
    expires_at: float = NOW + 9,
    released_at: float | None = None,
) -> Lease:
    return Lease(
        stream="s",
        holder=holder,
        claims=(Claim("/c", 1),),
        process=process,
        acquired_at=NOW - 60,
        renewed_at=NOW - 21,
        expires_at=expires_at,
        released_at=released_at,
    )


@pytest.mark.parametrize("judged", [True, False, None])
def test_a_bound_lease_of_another_host_is_judged_by_the_observer(tmp_path: Path, judged: bool | None) -> None:
    found = is_alive(record(tmp_path), lease_on=lambda of: lease(), held=lambda of: judged, now=NOW)
    assert found is judged


@pytest.mark.parametrize(
    ("current", "alive"),
    [
        (None, False),
        (lease(holder="s-2"), False),
        (lease(released_at=NOW - 1), False),
        (lease(process=None), True),
        (lease(process=None, expires_at=NOW), False),
    ],
    ids=["no lease", "another holder", "released", "a launch under way", "a launch whose claim has expired"],
)
def test_without_a_bound_lease_of_its_own_nothing_has_to_be_judged(
    tmp_path: Path, current: Lease | None, alive: bool
) -> None:
    def held(of: Lease) -> bool:
        raise AssertionError("this lease decides without the observer")

    assert is_alive(record(tmp_path), lease_on=lambda of: current, held=held, now=NOW) is alive


def test_what_is_seen_on_this_host_needs_no_lease(tmp_path: Path) -> None:
    """The store is not read: a thousand streams are observed at once."""

    def unread(of: object) -> None:
        raise AssertionError("the lease was read")

    own = processes.identity(os.getpid())
    ended = ExitRecord(kind=ExitKind.STOPPED, ended_at=NOW)
    assert is_alive(record(tmp_path, process=own), lease_on=unread, held=unread, now=NOW) is True
    assert is_alive(record(tmp_path, process=DEAD), lease_on=unread, held=unread, now=NOW) is False
    assert is_alive(record(tmp_path, process=own, exit=ended), lease_on=unread, held=unread, now=NOW) is False
    files.write_process(tmp_path, DEAD)
    assert is_alive(record(tmp_path, process=None), lease_on=unread, held=unread, now=NOW) is False
    files.write_document(tmp_path / files.EXIT, {"exit_code": 0})
    assert is_alive(record(tmp_path), lease_on=unread, held=unread, now=NOW) is False
