"""A driver of a group has ended when its process has, and when the group's host has ended its queries."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.services.fleet.departures import await_departure, await_departures, is_leaving
from streamwarden.services.fleet.exits.liveness import process_alive

DEAD = ProcessIdentity(host=processes.this_host(), pid=1, started_at=-1)


@pytest.fixture
def jvm() -> Iterator[ProcessIdentity]:
    """A process that stands for the JVM."""
    with subprocess.Popen(["sleep", "600"]) as child:
        found = processes.identity(child.pid)
        assert found is not None
        yield found
        child.kill()


def test_a_driver_without_a_group_leaves_nothing_behind(tmp_path: Path) -> None:
    assert not is_leaving(tmp_path)
    assert process_alive(tmp_path, DEAD) is False


def test_a_driver_whose_process_is_dead_lives_until_the_host_has_ended_its_queries(
    tmp_path: Path, jvm: ProcessIdentity
) -> None:
    files.write_membership(tmp_path, jvm)
    assert process_alive(tmp_path, DEAD) is True
    (tmp_path / files.LEFT).touch()
    assert process_alive(tmp_path, DEAD) is False


def test_the_end_of_the_jvm_ends_the_queries(tmp_path: Path, jvm: ProcessIdentity) -> None:
    files.write_membership(tmp_path, jvm)
    processes.signal_one(jvm, signal.SIGKILL)
    assert await_departure(tmp_path, within=10)
    assert process_alive(tmp_path, DEAD) is False


def test_a_launch_waits_for_the_drivers_before_it(tmp_path: Path, jvm: ProcessIdentity) -> None:
    older = tmp_path / "counts-1"
    older.mkdir()
    files.write_membership(older, jvm)
    waiting = threading.Thread(target=await_departures, args=(tmp_path,))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    (older / files.LEFT).touch()
    waiting.join(10)
    assert not waiting.is_alive()
    assert processes.is_alive(jvm), "the neighbours go on"


def test_a_query_that_nobody_ends_costs_the_group_its_jvm(tmp_path: Path, jvm: ProcessIdentity) -> None:
    files.write_membership(tmp_path, jvm)
    assert not await_departure(tmp_path, within=0.1)
    assert not processes.is_alive(jvm)
