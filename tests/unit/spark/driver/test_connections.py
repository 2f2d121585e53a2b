"""The servers that a fork's driver, its JVM and Python's workers are connected to."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from streamwarden.spark.driver import connections as sampling
from streamwarden.spark.driver.connections import Connected, Samples, connections, servers
from streamwarden.stream.spec import ScriptFork, StreamSpec

JVM, DRIVER, WORKER, OTHER = 10, 11, 12, 13
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
LINE = " 0: {here} {there} {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0"


def fake(root: Path, sockets: Mapping[int, list[str]]) -> Path:
    """A folder like /proc: the JVM has started the driver and a worker, and there is another process."""
    tables: dict[str, list[str]] = {"tcp": [HEAD], "tcp6": [HEAD]}
    inode = 100
    for pid, parent in ((JVM, 1), (DRIVER, JVM), (WORKER, DRIVER), (OTHER, 1)):
        (root / str(pid) / "fd").mkdir(parents=True)
        (root / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 1 1")
        (root / str(pid) / "comm").write_text("java\n")
        for ends in sockets.get(pid, ()):
            inode += 1
            here, there, state = ends.split()
            table = "tcp" if len(here) == 13 else "tcp6"
            tables[table].append(LINE.format(here=here, there=there, state=state, inode=inode))
            (root / str(pid) / "fd" / str(inode)).symlink_to(f"socket:[{inode}]")
        (root / str(pid) / "fd" / "1").symlink_to("/dev/null")
    (root / "net").mkdir()
    for name, lines in tables.items():
        (root / "net" / name).write_text("\n".join(lines))
    return root


MAPPED = "0000000000000000FFFF00000100007F"


def test_connections_of_the_driver_and_of_what_it_started_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    proc = fake(
        tmp_path,
        {
            JVM: [f"{MAPPED}:1388 {MAPPED}:1389 01", f"{MAPPED}:1388 {MAPPED}:0000 0A"],
            DRIVER: ["0100007F:1389 0100007F:1388 01"],
            WORKER: ["0200000A:9C40 0300000A:1538 01", "0200000A:9C41 0400000A:1539 06"],
            OTHER: ["0200000A:9C42 0500000A:1538 01"],
        },
    )
    found = sorted(connections(proc, JVM), key=lambda one: one.pid)
    assert found == [
        Connected(JVM, ("127.0.0.1", 5000), ("127.0.0.1", 5001)),
        Connected(DRIVER, ("127.0.0.1", 5001), ("127.0.0.1", 5000)),
        Connected(WORKER, ("10.0.0.2", 40000), ("10.0.0.3", 5432)),
    ]
    assert servers(found, ()) == [("10.0.0.3", 5432)], "the others connect the driver's own processes"
    assert servers(found, {WORKER}) == []


LISTENS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connections = []
while True:
    connections.append(server.accept())
"""
CONNECTS = """
import socket, sys, time
kept = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("fork", [None, ScriptFork(output="/o")], ids=["job", "script"])
def test_a_server_that_a_worker_connects_to_is_found_once(
    monkeypatch: pytest.MonkeyPatch, fork: ScriptFork | None
) -> None:
    """This process is the driver. What it connects to is compared by Spark's own means, if it is that of a script."""
    tree = sampling._tree
    with subprocess.Popen([sys.executable, "-c", LISTENS], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        monkeypatch.setattr(sampling, "_tree", lambda proc, root: tree(proc, root) - {server.pid})
        samples = Samples(StreamSpec(name="s__fork_1", job="/j.py", checkpoint="/c", fork=fork))
        assert samples.take() == []
        with socket.create_connection(("127.0.0.1", port)):
            assert samples.take() == ([] if fork else [f"127.0.0.1:{port}"])
        with subprocess.Popen([sys.executable, "-c", CONNECTS, str(port)], stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            assert samples.take() == ([f"127.0.0.1:{port}"] if fork else [])
            assert samples.take() == []
            worker.kill()
        server.kill()
