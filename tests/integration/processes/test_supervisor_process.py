"""The supervisor process, with a shell in the driver's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ProcessIdentity
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching import supervisor_process
from support.spark.drivers import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "drivers" / "counts" / "counts-20260101T000000-00000000"
    made.mkdir(parents=True)
    return made


def keep(folder: Path, script: str, **env: str) -> None:
    subprocess.run(
        [sys.executable, "-m", supervisor_process.__name__, str(folder), "--", "/bin/sh", "-c", script],
        check=True,
        timeout=20,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "STREAMWARDEN_STORE_URL": "", **env},
    )


def started(folder: Path) -> ProcessIdentity:
    return until("process.json", lambda: files.read_process(folder))


def ended(folder: Path) -> dict[str, object]:
    return until("exit.json", lambda: files.read_document(folder / files.EXIT))


def launched(store: Store, folder: Path) -> None:
    """What a launcher records in the store before it starts the supervisor process."""
    lease = store.leases.acquire("/cp", stream="counts", holder=folder.name, ttl=30, now=time.time())
    record = DriverRecord(
        driver_id=folder.name,
        stream="counts",
        checkpoint="/cp",
        token=lease.token,
        folder=str(folder),
        launched_by="test",
        launched_at=time.time(),
    )
    store.drivers.launched(record)


def stop_request(folder: Path, batch: float, kill: float) -> StopRequest:
    now = time.time()
    return StopRequest(
        driver_id=folder.name,
        requested_by="ann",
        reason="test",
        requested_at=now,
        batch_deadline=now + batch,
        kill_deadline=now + kill,
    )


def test_the_exit_code_and_the_output_of_a_driver_are_kept(folder: Path) -> None:
    keep(folder, "echo out; echo err >&2; exit 7")
    assert (ended(folder)["exit_code"], ended(folder)["signal"]) == (7, None)
    assert (folder / files.LOG).read_text().split() == ["out", "err"]


def test_a_driver_is_in_a_group_of_its_own_and_nobodys_child(folder: Path) -> None:
    keep(folder, "exec sleep 60")
    process = started(folder)
    guard = until("supervisor_process.json", lambda: files.read_document(folder / files.SUPERVISOR))
    try:
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == guard["pid"]
        assert os.getsid(process.pid) != os.getsid(0)
        assert guard["pid"] not in processes.tree(os.getpid())
    finally:
        processes.signal_group(process, signal.SIGKILL)
    assert ended(folder)["signal"] == 9


def test_what_a_killed_leader_leaves_in_its_group_is_killed_too(folder: Path) -> None:
    """The Python half of a driver whose JVM was killed must not live on."""
    keep(folder, "sleep 60 & echo $! > child; wait".replace("child", str(folder / "child")))
    process = started(folder)
    child = int(until("the child", lambda: (folder / "child").exists() and (folder / "child").read_text().strip()))
    os.kill(process.pid, signal.SIGKILL)
    assert ended(folder)["signal"] == 9
    until("the child's end", lambda: processes.identity(child) is None)
    assert processes.identity(child) is None


def test_a_stop_that_takes_too_long_is_terminated_and_the_signal_recorded(folder: Path) -> None:
    keep(folder, "exec sleep 60")
    started(folder)
    files.write_stop(folder, stop_request(folder, batch=0.3, kill=30))
    assert ended(folder)["signal"] == signal.SIGTERM
    assert [event.detail["signal"] for event in files.read_events(folder)] == ["SIGTERM"]


def test_a_driver_that_ignores_sigterm_is_killed_at_the_kill_deadline(folder: Path) -> None:
    keep(folder, f'trap "" TERM; touch {folder}/deaf; while :; do sleep 0.1; done')
    started(folder)
    until("deaf to SIGTERM", lambda: (folder / "deaf").exists())
    files.write_stop(folder, stop_request(folder, batch=0.1, kill=0.4))
    assert ended(folder)["signal"] == signal.SIGKILL
    assert [event.detail["signal"] for event in files.read_events(folder)] == ["SIGTERM", "SIGKILL"]


def test_a_driver_whose_jvm_does_not_answer_is_killed_and_the_reason_recorded(folder: Path) -> None:
    keep(folder, "exec sleep 60")
    started(folder)
    files.write_document(folder / files.UNRESPONSIVE, {"silent_for": 61.0})
    assert ended(folder)["signal"] == signal.SIGKILL
    outcome = files.read_outcome(folder)
    assert outcome is not None
    assert (outcome.kind, outcome.error_class, outcome.signal) == (ExitKind.KILLED, "JvmUnresponsive", 9)
    (event,) = files.read_events(folder)
    assert (event.kind, event.detail["signal"], event.detail["landed"]) == ("signal_sent", "SIGKILL", "true")
    assert "did not answer for 1m 1s" in event.detail["reason"]


def test_a_driver_of_which_every_half_was_stopped_is_killed_too_but_not_one_that_goes_on(folder: Path) -> None:
    """No Python half is left to report it: the supervisor process sees the state of the process itself."""
    files.write_document(folder / files.SPEC, {"restart": {"unresponsive_after": 1.5}})
    keep(folder, "exec sleep 60")
    process = started(folder)
    processes.signal_group(process, signal.SIGSTOP)
    time.sleep(0.7)  # less than the bound: the supervisor process has seen it stopped
    processes.signal_group(process, signal.SIGCONT)
    time.sleep(1.2)  # longer than the rest of the bound: the first stop must not count any more
    assert processes.is_alive(process)
    processes.signal_group(process, signal.SIGSTOP)
    assert ended(folder)["signal"] == signal.SIGKILL
    outcome = files.read_outcome(folder)
    assert outcome is not None
    assert "SIGSTOP" in outcome.message


def test_a_stop_request_for_another_driver_is_not_obeyed(folder: Path) -> None:
    keep(folder, f"sleep {3 * supervisor_process.POLL}; exit 0")
    started(folder)
    request = stop_request(folder, batch=0, kill=0)
    files.write_document(folder / files.STOP, {**{f: getattr(request, f) for f in request.__slots__}, "driver_id": "x"})
    assert ended(folder)["exit_code"] == 0


def test_a_command_that_cannot_be_run_is_an_exit_with_a_reason(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", supervisor_process.__name__, str(folder), "--", "/no/such/command"],
        check=True,
        timeout=20,
        env={**os.environ, "STREAMWARDEN_STORE_URL": ""},
    )
    assert "/no/such/command" in str(ended(folder)["error"])


def test_temporary_files_go_with_the_driver(folder: Path) -> None:
    (folder / files.TEMPORARY).mkdir()
    keep(folder, f"echo x > {folder / files.TEMPORARY / 'librocksdbjni.so'}; exit 0")
    assert ended(folder)["exit_code"] == 0
    until("the sweep", lambda: not (folder / files.TEMPORARY).exists())
    assert not (folder / files.TEMPORARY).exists()


def test_the_supervisor_process_records_by_itself_that_its_driver_was_killed(folder: Path, store_url: str) -> None:
    with Store(store_url) as store:
        launched(store, folder)
        keep(folder, "exec sleep 60", STREAMWARDEN_STORE_URL=store_url)
        process = started(folder)
        processes.signal_group(process, signal.SIGKILL)
        record = until("the record", lambda: (found := store.drivers.get(folder.name)) and found.exit and found)
        assert (record.exit.kind, record.exit.signal) == (ExitKind.KILLED, 9)
        current = until("the release", lambda: (now := store.leases.current("/cp")) and now.released_at and now)
        assert current.holder == folder.name


def test_a_driver_whose_supervisor_process_was_killed_as_well_is_still_known_to_be_dead(
    folder: Path, tmp_path: Path, store_url: str
) -> None:
    with Store(store_url) as store:
        launched(store, folder)
        keep(folder, "exec sleep 60", STREAMWARDEN_STORE_URL=store_url)
        process = started(folder)
        store.drivers.bound(folder.name, process)
        fleet = Fleet(store, tmp_path)
        assert fleet.observe(folder.name).alive
        guard = files.read_document(folder / files.SUPERVISOR)
        assert guard is not None
        os.kill(guard["pid"], signal.SIGKILL)
        until("the supervisor process's end", lambda: processes.identity(guard["pid"]) is None)
        assert fleet.observe(folder.name).alive
        processes.signal_group(process, signal.SIGKILL)
        killed_at = time.monotonic()
        seen = until("the end", lambda: (now := fleet.observe(folder.name)) and not now.alive and now)
        assert time.monotonic() - killed_at <= 6.0, "2 s, where the machine does nothing else"
        assert seen.exit is not None
        assert seen.exit.kind is ExitKind.KILLED


def test_a_standby_that_was_dismissed_is_killed_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / files.STANDBY).write_text("{}")
    keep(folder, "sleep 600")
    process = started(folder)
    assert files.settle_standby(folder, files.DISMISSED)
    until("the end of the standby's folder", lambda: not folder.exists())
    assert not processes.is_alive(process)


def test_a_standby_that_ends_by_itself_leaves_nothing(folder: Path) -> None:
    (folder / files.STANDBY).write_text("{}")
    keep(folder, "exit 3")
    assert until("the end of the standby's folder", lambda: not folder.exists()), "no exit is kept, and no log"


def test_a_standby_that_was_taken_is_a_driver_whose_exit_is_kept(folder: Path) -> None:
    (folder / files.STANDBY).write_text("{}")
    keep(folder, "sleep 0.5; exit 3")
    started(folder)
    assert files.settle_standby(folder, files.PROMOTED)
    assert ended(folder)["exit_code"] == 3


def test_a_standby_of_a_pool_ends_as_the_driver_that_it_became_and_its_own_folder_goes(folder: Path) -> None:
    home = folder.parents[1] / files.POOLED / "pool-20260101T000000-00000000"
    (home / files.TEMPORARY).mkdir(parents=True)
    keep(home, "exec sleep 60")
    process = started(home)
    files.write_document(home / files.DRIVER, {"folder": str(folder), "settings": {}})
    files.write_stop(folder, stop_request(folder, batch=0, kill=0))
    assert ended(folder)["signal"] in (int(signal.SIGTERM), int(signal.SIGKILL))
    until("the end of its own folder", lambda: not home.exists())
    assert processes.identity(process.pid) is None


def test_a_standby_of_a_pool_that_no_launch_took_leaves_nothing(folder: Path) -> None:
    home = folder.parents[1] / files.POOLED / "pool-20260101T000000-00000000"
    home.mkdir(parents=True)
    keep(home, "exec sleep 60")
    process = started(home)
    (home / files.DISMISSED).touch()
    until("the end of its own folder", lambda: not home.exists())
    assert not processes.is_alive(process)
