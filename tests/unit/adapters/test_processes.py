"""Who a process is, and whether it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from streamwarden.adapters import processes
from support.spark.drivers import until


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], process_group=0)
    yield process
    process.kill()
    process.wait()


def test_a_living_process_is_itself(child: subprocess.Popen[bytes]) -> None:
    found = processes.identity(child.pid)
    assert found is not None
    assert found.pid == child.pid
    assert processes.is_alive(found) is True


def test_a_pid_that_another_program_has_now_is_not_taken_for_the_driver(child: subprocess.Popen[bytes]) -> None:
    found = processes.identity(child.pid)
    assert found is not None
    former = replace(found, started_at=found.started_at - 100)
    assert processes.is_alive(former) is False
    assert processes.signal_group(former, signal.SIGKILL) is False
    assert child.poll() is None


def test_a_process_of_another_host_cannot_be_seen(child: subprocess.Popen[bytes]) -> None:
    found = processes.identity(child.pid)
    assert found is not None
    assert processes.is_alive(replace(found, host="elsewhere/boot/1")) is None


def test_a_process_after_a_reboot_is_on_another_host() -> None:
    name, boot, namespace = processes.this_host().rsplit("/", 2)
    assert name
    assert len(boot) == 36
    assert namespace.isdigit()


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    found = processes.identity(child.pid)
    assert found is not None
    child.kill()  # not waited for: it stays as a zombie
    until("death", lambda: processes.is_alive(found) is False)
    assert os.path.exists(f"/proc/{child.pid}")  # noqa: PTH110


def test_no_process_no_identity() -> None:
    assert processes.identity(2**22 + 1) is None


def test_a_signal_reaches_the_whole_group() -> None:
    leader = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & sleep 60"], process_group=0)
    found = processes.identity(leader.pid)
    assert found is not None
    until("the children", lambda: len(processes.tree(leader.pid)) == 3)
    members = processes.tree(leader.pid)
    assert processes.signal_group(found, signal.SIGKILL) is True
    leader.wait()
    until("their end", lambda: all(processes.identity(pid) is None for pid in members))
    assert processes.signal_group(found, signal.SIGKILL) is False


def test_memory_is_that_of_the_whole_tree() -> None:
    code = "import subprocess,sys; x=bytearray(60_000_000); subprocess.run(['sleep','60'])"
    leader = subprocess.Popen([sys.executable, "-c", code], process_group=0)
    found = processes.identity(leader.pid)
    assert found is not None
    try:
        until("memory", lambda: (processes.resident_bytes(found) or 0) > 60_000_000)
        until("the child", lambda: len(processes.tree(leader.pid)) == 2)
        assert (processes.resident_bytes(found) or 0) < 200_000_000
    finally:
        processes.signal_group(found, signal.SIGKILL)
        leader.wait()
    assert processes.resident_bytes(found) is None


@pytest.mark.parametrize("group", [0, 1, -5])
def test_a_group_that_is_no_drivers_is_never_signalled(group: int) -> None:
    assert processes.signal_members(group, 0) is False


def test_the_own_group_is_never_signalled() -> None:
    assert processes.signal_members(os.getpgrp(), 0) is False


def test_the_end_of_a_process_is_known_at_once(child: subprocess.Popen[bytes]) -> None:
    """The wait for it does not last as long as it may."""
    found = processes.identity(child.pid)
    assert found is not None
    assert processes.await_end(found, 0.01) is False
    child.kill()
    began = time.monotonic()
    assert processes.await_end(found, 60) is True
    assert time.monotonic() - began < 30
    child.wait()
    assert processes.await_end(found, 60) is True


def test_a_process_that_cannot_be_seen_or_has_another_start_is_not_waited_for(child: subprocess.Popen[bytes]) -> None:
    found = processes.identity(child.pid)
    assert found is not None
    assert processes.await_end(replace(found, started_at=found.started_at - 100), 60) is True
    assert processes.await_end(replace(found, host="elsewhere"), 0.01) is False


def test_the_group_of_a_process_that_does_not_lead_it_is_reached() -> None:
    """As the JVM in a container of YARN, whose shell leads the group."""
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, process_group=0)
    assert shell.stdout is not None
    found = processes.identity(int(shell.stdout.readline()))
    assert found is not None
    assert processes.signal_group(found, signal.SIGKILL) is True
    assert shell.wait(timeout=20) == -signal.SIGKILL
    shell.stdout.close()
