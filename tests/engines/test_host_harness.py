"""The hosts of these tests are what they seem: each with its own name, processes, network and mounts, and each fault of
theirs is what it is called."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from support.hosts.host import LOCAL, SHARED
from support.hosts.park import STORE, Park, park
from support.spark.drivers import until

pytestmark = pytest.mark.full

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()"
TALK = """
import psycopg, sys, time
session = psycopg.connect(sys.argv[1], application_name="talker")
print("connected", flush=True)
time.sleep(60)
"""
IDENTITY = (
    "import socket; from streamwarden.adapters import processes; print(socket.gethostname(), processes.this_host())"
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Park]:
    with park("one", "two") as made:
        yield made


def reaches_store(park: Park, name: str) -> bool:
    done = park.hosts[name].run([sys.executable, "-c", CONNECT, park.store.address, str(park.store.port)])
    return done.returncode == 0


def test_each_host_has_a_name_and_an_identity_of_its_own(hosts: Park) -> None:
    said = {name: host.run([sys.executable, "-c", IDENTITY]).stdout.split() for name, host in hosts.hosts.items()}
    assert [said[name][0] for name in ("one", "two")] == ["one", "two"]
    assert said["one"][1] != said["two"][1]


def test_a_pid_of_one_host_means_nothing_on_another(hosts: Park) -> None:
    sleeper = hosts.hosts["one"].start(["sleep", "60"])
    try:
        until("it runs", lambda: "sleep 60" in hosts.hosts["one"].run(["ps", "-eo", "args"]).stdout)
        assert "sleep 60" not in hosts.hosts["two"].run(["ps", "-eo", "args"]).stdout
    finally:
        for process in psutil.Process(sleeper.pid).children():
            process.kill()
        sleeper.wait(timeout=20)


def test_a_host_that_is_cut_off_from_the_store_does_not_reach_it_and_others_do(hosts: Park) -> None:
    hosts.network.cut("one", STORE)
    try:
        assert not reaches_store(hosts, "one")
        assert reaches_store(hosts, "two")
    finally:
        hosts.network.heal("one", STORE)
    assert reaches_store(hosts, "one")


def test_nothing_outside_reaches_a_host_and_no_host_reaches_outside(hosts: Park) -> None:
    outside = [sys.executable, "-c", CONNECT, hosts.store.address, str(hosts.store.port)]
    assert subprocess.run(outside, capture_output=True, timeout=20).returncode != 0
    done = hosts.hosts["one"].run([sys.executable, "-c", CONNECT, "192.0.2.1", "80"])
    assert "unreachable" in done.stderr


def test_all_hosts_see_the_shared_folder_and_each_its_own_disk(hosts: Park) -> None:
    one, two = hosts.hosts["one"], hosts.hosts["two"]
    one.run(["sh", "-c", f"echo seen >{SHARED}/file; echo mine >{LOCAL}/file"])
    assert two.run(["cat", f"{SHARED}/file"]).stdout == "seen\n"
    assert two.run(["cat", f"{LOCAL}/file"]).returncode != 0


def test_a_shared_file_tells_which_host_wrote_it_and_no_host_sees_that(hosts: Park) -> None:
    for name, host in hosts.hosts.items():
        host.run(["sh", "-c", f"echo {name} >{SHARED}/of-{name}.part; mv {SHARED}/of-{name}.part {SHARED}/of-{name}"])
        assert (hosts.shared / f"of-{name}").stat().st_uid == host.writer
    assert hosts.hosts["one"].run(["stat", "-c", "%u", f"{SHARED}/of-two"]).stdout == "0\n"


def test_a_shared_folder_that_hangs_lets_its_host_wait_and_no_other(hosts: Park) -> None:
    one, two = hosts.hosts["one"], hosts.hosts["two"]
    hosts.shares["one"].hang()
    try:
        late = one.start(["sh", "-c", f"echo late >{SHARED}/late"])
        assert two.run(["sh", "-c", f"echo other >{SHARED}/other"], timeout=10).returncode == 0
        with pytest.raises(subprocess.TimeoutExpired):
            late.wait(timeout=1)
        assert not (hosts.shared / "late").exists()
    finally:
        hosts.shares["one"].heal()
    assert late.wait(timeout=20) == 0
    assert (hosts.shared / "late").read_text() == "late\n"


def test_a_host_without_power_has_no_process_and_says_no_goodbye() -> None:
    """Its peer keeps the connection: a kernel that ends a process in good order would close it."""
    with park("one", "two") as made:
        one = made.hosts["one"]
        url = made.store.connection("streamwarden")
        outer = one.start([sys.executable, "-c", TALK, url], stdout=subprocess.PIPE)
        assert outer.stdout is not None
        assert outer.stdout.readline()
        left = one.processes()
        assert len(left) >= 2  # the talker, and the program of the shared folder
        one.power_off()
        assert not any(process.is_running() for process in left)
        outer.wait(timeout=20)
        assert made.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'talker'") == [(1,)]
        made.power_on("one")
        assert reaches_store(made, "one")
