"""The JVM of a group on this host: which one a driver finds, and what it is told of one that does not come up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.groups.group import HOST, Door
from streamwarden.services.fleet.groups.hosts import await_door, find, has_ended, shut_if, write_door


def host(home: Path, name: str, *, fit: str = "f", process: ProcessIdentity | None = None) -> Path:
    folder = home / name
    folder.mkdir()
    files.write_document(folder / HOST, {"group": "small", "fit": fit, "unresponsive_after": 60.0})
    own = processes.identity(os.getpid())
    assert own is not None
    files.write_process(folder, process or own)
    return folder


DEAD = ProcessIdentity(host=processes.this_host(), pid=1, started_at=-1)
ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=1, started_at=1)


def test_a_driver_finds_the_newest_living_host_that_fits(tmp_path: Path) -> None:
    fits = [host(tmp_path, name) for name in ("1", "2")][-1]
    host(tmp_path, "3", fit="other settings")
    host(tmp_path, "4", process=DEAD)
    host(tmp_path, "5", process=ELSEWHERE)
    assert find(tmp_path, "f") == fits
    assert find(tmp_path, "nobody's") is None


def test_an_empty_host_that_ends_is_not_found_any_more(tmp_path: Path) -> None:
    folder = host(tmp_path, "1")
    write_door(folder, Door(port=1, key="k", jvm=DEAD))
    assert not shut_if(folder, still_empty=False)
    assert find(tmp_path, "f") == folder
    assert not has_ended(folder)
    assert shut_if(folder, still_empty=True)
    assert find(tmp_path, "f") is None
    assert has_ended(folder)
    assert await_door(folder, within=10) is None, "then the driver looks again"


def test_the_door_is_for_this_user_alone(tmp_path: Path) -> None:
    folder = host(tmp_path, "1")
    door = Door(port=1, key="k", jvm=DEAD)
    write_door(folder, door)
    assert await_door(folder, within=10) == door
    (written,) = folder.glob("door.json")
    assert written.stat().st_mode & 0o077 == 0


def test_a_jvm_that_ends_before_it_is_ready_is_named_with_its_log(tmp_path: Path) -> None:
    folder = host(tmp_path, "1")
    files.write_document(folder / files.EXIT, {"exit_code": 1})
    with pytest.raises(ProcessError, match=r"ended before it let a driver in.*read driver\.log there"):
        await_door(folder, within=10)


def test_a_jvm_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="has let no driver in for 0 s"):
        await_door(host(tmp_path, "1"), within=0.0)
