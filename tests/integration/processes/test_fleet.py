"""The fleet, with a shell script in spark-submit's place: it is a real process under a real supervisor process."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.adapters.store import Store
from streamwarden.errors import LeaseHeld, ProcessError, StoreError
from streamwarden.health.incidents.stream_incidents import open_incident
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.fleet.claims import START_TTL
from streamwarden.services.fleet.exits.driver_ids import new_driver_id, stream_of
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder
from streamwarden.services.fleet.exits.lease_grace import GRACE
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import StopPolicy, StreamSpec, TriggerSpec
from support.spark.drivers import until


class Yard:
    def __init__(self, root: Path, url: str) -> None:
        self.data = root / "var"
        self.data.mkdir()
        self.url = url
        self.store = Store(url)
        self.fleet = Fleet(self.store, self.data)
        self.spec = StreamSpec(
            name="counts", job="/no/job.py", checkpoint=str(root / "cp"), stop=StopPolicy(batch_deadline=0.2)
        )

    def submit(self, script: str) -> list[str]:
        """A spark-submit that ignores its options and does `script` (the driver's folder is $FOLDER)."""
        path = self.data / "submit.sh"
        path.write_text(f'#!/bin/sh\nfor FOLDER in "$@"; do :; done\n{script}\n')
        path.chmod(0o755)
        return [str(path)]

    def close(self) -> None:
        for folder in (self.data / "drivers").glob("*/*"):
            process = files.read_process(folder)
            if process is not None:
                processes.signal_group(process, signal.SIGKILL)
                until("its end", lambda f=folder: (f / files.EXIT).exists())  # type: ignore[misc]
        self.store.close()


@pytest.fixture
def yard(tmp_path: Path, store_url: str) -> Iterator[Yard]:
    made = Yard(tmp_path, store_url)
    yield made
    made.close()


def test_a_start_leaves_a_private_folder_a_bound_lease_and_a_living_process(yard: Yard) -> None:
    started = yard.fleet.start(yard.spec, launched_by="ann", command=yard.submit("exec sleep 60"))
    record = yard.store.drivers.get(started.record.driver_id)
    assert record is not None
    assert record.process == files.read_process(Path(record.folder))
    lease = yard.store.leases.current(yard.spec.checkpoint)
    assert lease is not None
    assert (lease.holder, lease.token, lease.process) == (record.driver_id, record.token, record.process)
    assert Path(record.folder).stat().st_mode & 0o777 == 0o700
    assert yard.fleet.observe(record.driver_id).alive
    assert (record.launched_by, started.reattached) == ("ann", False)


def test_of_many_starts_in_many_threads_one_launches(yard: Yard) -> None:
    command = yard.submit("exec sleep 60")
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda n: yard.fleet.start(yard.spec, launched_by=str(n), command=command), range(8)))
    assert [each.reattached for each in started].count(False) == 1
    assert len({each.record.driver_id for each in started}) == 1
    assert len(list((yard.data / "drivers" / "counts").iterdir())) == 1


def test_after_its_end_the_next_start_launches_and_the_end_is_on_record(yard: Yard) -> None:
    first = yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exit 5")).record
    until("its end", lambda: not yard.fleet.observe(first.driver_id).alive)
    second = yard.fleet.start(yard.spec, launched_by="b", command=yard.submit("exec sleep 60")).record
    assert second.driver_id != first.driver_id
    assert second.token > first.token
    ended = yard.store.drivers.get(first.driver_id)
    assert ended is not None
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.exit_code) == (ExitKind.FAILED, 5)


def test_a_killed_driver_does_not_keep_the_next_one_out_although_its_lease_has_not_expired(yard: Yard) -> None:
    command = yard.submit("exec sleep 60")
    first = yard.fleet.start(yard.spec, launched_by="a", command=command).record
    assert yard.fleet.kill(first.driver_id)
    assert first.process is not None
    until("its end", lambda: first.process is not None and not processes.is_alive(first.process))
    second = yard.fleet.start(yard.spec, launched_by="b", command=command)
    assert not second.reattached
    ended = yard.store.drivers.get(first.driver_id)
    assert ended is not None
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.KILLED


@pytest.mark.parametrize(("trigger", "cut"), [(TriggerSpec(), False), (TriggerSpec(real_time=5.0), None)])
def test_logs_that_agree_say_that_no_batch_was_cut_but_not_in_real_time_mode(
    yard: Yard, trigger: TriggerSpec, cut: bool | None
) -> None:
    """There the logs agree while a batch runs, too."""
    spec = replace(yard.spec, trigger=trigger)
    driver = yard.fleet.start(spec, launched_by="a", command=yard.submit("exec sleep 60")).record
    assert yard.fleet.kill(driver.driver_id)
    until("its end", lambda: not yard.fleet.observe(driver.driver_id).alive)
    ended = yard.fleet.observe(driver.driver_id).exit
    assert ended is not None
    assert (ended.kind, ended.cut_batch) == (ExitKind.KILLED, cut)


def test_two_hosts_with_one_store_and_two_data_folders_get_one_driver(yard: Yard, tmp_path: Path) -> None:
    """Each host resolves the stream's relative paths in a data folder that the other one does not see."""
    command = yard.submit("exec sleep 60")
    first = yard.fleet.start(yard.spec, launched_by="a", command=command).record
    with Store(yard.url) as store:
        other = Fleet(store, tmp_path / "other-var")
        elsewhere = replace(yard.spec, checkpoint=str(tmp_path / "other-cp"))
        with pytest.raises(LeaseHeld) as caught:
            other.start(elsewhere, launched_by="b", command=command)
        assert not (tmp_path / "other-var" / "drivers").exists()
        assert [driver.driver_id for driver in store.drivers.history("counts", 0)] == [first.driver_id]
        seen = other.stop("counts", requested_by="b", reason="test", batch_deadline=0.1, term_deadline=5)
    assert first.process is not None
    for part in (first.driver_id, first.process.host, f"pid {first.process.pid}", yard.spec.checkpoint, "data folder"):
        assert part in str(caught.value)
    assert seen is not None
    assert seen.record.driver_id == first.driver_id


def test_of_starts_with_many_checkpoints_at_the_same_time_one_launches(yard: Yard, tmp_path: Path) -> None:
    command = yard.submit("exec sleep 60")

    def start(number: int) -> str:
        try:
            yard.fleet.start(
                replace(yard.spec, checkpoint=str(tmp_path / f"cp{number}")), launched_by="x", command=command
            )
        except LeaseHeld as held:
            return str(held)
        return ""

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(start, range(8)))
    assert answers.count("") == 1
    assert len(list((yard.data / "drivers" / "counts").iterdir())) == 1
    assert all("with the checkpoint" in answer for answer in answers if answer)


def test_a_driver_that_starts_slowly_is_left_alone_by_those_who_cannot_see_its_process(yard: Yard) -> None:
    """Airflow's triggerer in another container, on a host so busy that Spark's start takes longer than a lease lasts.
    A driver that never renews the lease is dead for them in the end."""
    record = yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60")).record
    now = time.time()
    elsewhere = ExitRecorder(yard.store, clock=lambda: now, alive=lambda _: None)
    for _ in range(int(START_TTL) - 2):
        now += 1
        assert elsewhere.observe(record.driver_id).alive
    for _ in range(int(GRACE) + 2):
        now += 1
        seen = elsewhere.observe(record.driver_id)
        if not seen.alive:
            break
    assert seen.exit is not None
    assert seen.exit.kind is ExitKind.KILLED


def test_another_streams_driver_on_the_checkpoint_keeps_this_one_out(yard: Yard) -> None:
    command = yard.submit("exec sleep 60")
    yard.fleet.start(yard.spec, launched_by="a", command=command)
    with pytest.raises(LeaseHeld, match="counts"):
        yard.fleet.start(replace(yard.spec, name="other"), launched_by="b", command=command)


def test_without_java_nothing_is_started_and_no_lease_is_taken(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamwarden.services.fleet.launching.launch.find_java", _no_java)
    with pytest.raises(ProcessError, match="no usable Java"):
        yard.fleet.start(yard.spec, launched_by="a")
    assert yard.store.leases.current(yard.spec.checkpoint) is None
    assert yard.store.drivers.latest("counts") is None


def _no_java(environ: object) -> Path:
    from streamwarden.adapters.jvm.java import find_java

    return find_java({"PATH": ""}, installed=Path("/nonexistent"))


def test_a_store_that_is_gone_starts_nothing(yard: Yard, tmp_path: Path) -> None:
    gone = Store(f"sqlite:///{tmp_path / 'gone.db'}")
    with pytest.raises(StoreError):
        Fleet(gone, yard.data).start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60"))
    assert not (yard.data / "drivers").exists()
    gone.close()


def test_a_launch_that_fails_gives_its_lease_back(yard: Yard) -> None:
    (yard.data / "drivers").write_text("a file where a folder must be")
    with pytest.raises(ProcessError, match="could not be launched"):
        yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60"))
    lease = yard.store.leases.current(yard.spec.checkpoint)
    assert lease is not None
    assert lease.released_at is not None
    (yard.data / "drivers").unlink()
    assert not yard.fleet.start(yard.spec, launched_by="b", command=yard.submit("exec sleep 60")).reattached


def test_a_command_that_does_not_exist_is_a_recorded_failure(yard: Yard) -> None:
    record = yard.fleet.start(yard.spec, launched_by="a", command=["/no/such/spark-submit"]).record
    seen = yard.fleet.wait(record.driver_id, timeout=20, poll=0.05)
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.curable) == (ExitKind.FAILED, False)
    assert "/no/such/spark-submit" in seen.exit.message


def test_a_stop_is_a_request_that_outlives_the_driver(yard: Yard) -> None:
    record = yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60")).record
    seen = yard.fleet.stop("counts", requested_by="ann", reason="deploy", batch_deadline=0.1, term_deadline=5)
    assert seen is not None
    assert seen.exit is not None
    assert (seen.exit.kind, seen.exit.signal) == (ExitKind.KILLED, signal.SIGTERM)
    assert "ann (deploy)" in seen.exit.message
    desired = yard.store.stops.desired("counts")
    assert desired is not None
    assert (desired.desired, desired.changed_by) == (Desired.STOPPED, "ann")
    kinds = [event.kind for event in yard.store.drivers.events(record.driver_id)]
    assert kinds == ["logs_at_launch", "stop_requested", "signal_sent"]


def test_a_restart_leaves_the_stream_wanted_running(yard: Yard) -> None:
    yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60"))
    request = yard.fleet.request_stop("counts", requested_by="ann", reason="new code", restart=True)
    assert request is not None
    assert request.restart
    assert yard.store.stops.desired("counts") is None
    yard.fleet.request_stop("counts", requested_by="bob", reason="holiday", batch_deadline=60)
    yard.fleet.request_stop("counts", requested_by="ann", reason="new code", restart=True)
    desired = yard.store.stops.desired("counts")
    assert desired is not None
    assert desired.desired is Desired.RUNNING


def test_a_stop_of_a_stream_that_stays_down_ends_its_incident(yard: Yard) -> None:
    """No driver lives that could be stopped; who asks for a restart still wants it up."""
    incidents = yard.store.incidents
    open_incident(incidents, "counts", "out of budget", "read the log", time.time())
    assert yard.fleet.request_stop("counts", requested_by="ann", reason="new code", restart=True) is None
    assert len(incidents.open("counts")) == 1
    assert yard.fleet.request_stop("counts", requested_by="ann", reason="mending it") is None
    assert list(incidents.open("counts")) == []


def test_the_deadlines_are_the_streams_own_unless_said_otherwise(yard: Yard) -> None:
    yard.fleet.start(yard.spec, launched_by="a", command=yard.submit('trap "" TERM; while :; do sleep 0.1; done'))
    before = time.time()
    request = yard.fleet.request_stop("counts", requested_by="ann", reason="x", term_deadline=7)
    assert request is not None
    assert before + 0.1 < request.batch_deadline < time.time() + 0.3
    assert request.kill_deadline == pytest.approx(request.batch_deadline + 7)


def test_old_folders_and_the_temporary_files_of_dead_drivers_are_swept(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamwarden.services.fleet.exits.cleaning.KEPT_FOLDERS", 2)
    folders: list[Path] = []
    fleet = Fleet(yard.store, yard.data, clock=lambda: time.time() + len(folders))  # ids sort by the second
    for _ in range(4):
        record = fleet.start(yard.spec, launched_by="a", command=yard.submit("exit 0")).record
        fleet.wait(record.driver_id, timeout=20, poll=0.05)
        folders.append(Path(record.folder))
        until("the supervisor process's sweep", lambda f=folders[-1]: not (f / files.TEMPORARY).exists())  # type: ignore[misc]
    (folders[2] / files.TEMPORARY).mkdir()
    fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60"))
    assert [folder.exists() for folder in folders] == [False, False, True, True]
    assert not (folders[2] / files.TEMPORARY).exists()


def test_an_unknown_driver_is_an_error(yard: Yard) -> None:
    with pytest.raises(ProcessError, match="no driver"):
        yard.fleet.observe("counts-1")


def test_waiting_too_long_names_the_log(yard: Yard) -> None:
    record = yard.fleet.start(yard.spec, launched_by="a", command=yard.submit("exec sleep 60")).record
    with pytest.raises(ProcessError, match=r"driver\.log"):
        yard.fleet.wait(record.driver_id, timeout=0.3, poll=0.05)


@pytest.mark.parametrize("text", ["../../etc", "counts/../../x-1-2", "a b-1-2", "", "-1-2"])
def test_a_name_from_a_url_is_no_path(text: str) -> None:
    with pytest.raises(ProcessError, match="not a driver id"):
        stream_of(text)


def test_a_driver_id_tells_its_stream_and_sorts_by_time() -> None:
    early, late = new_driver_id("counts", 1e9), new_driver_id("counts", 1e9 + 1)
    assert early < late
    assert stream_of(early) == "counts"


def test_spark_is_the_one_that_is_installed_with_this_package() -> None:
    assert (spark_home() / "bin" / "spark-submit").exists()
