"""The host of a group, with gateways that open nothing: who is let in, and what the end of a process causes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.groups.group import DOOR, HOST, Door
from streamwarden.services.fleet.departures import is_leaving
from streamwarden.services.fleet.groups.hosts import await_door, count_members
from streamwarden.spark.groups import host as module
from streamwarden.spark.groups.host import GroupHost, Request
from support.spark.drivers import until


@dataclass
class Gateways:
    """Stands for the JVM: `ends` says whether a query can be ended."""

    ends: bool = True
    ended: list[str] = field(default_factory=list)
    port: int = 4711
    secret: str = "s"

    def end_queries(self, checkpoint: str, within: float) -> bool:
        self.ended.append(checkpoint)
        return self.ends

    def close(self) -> None: ...


@dataclass
class Hosted:
    folder: Path
    gateways: Gateways
    code: list[int]
    door: Door
    thread: threading.Thread
    forget_nobody: Callable[[], None]

    def knock(self, name: str, process: ProcessIdentity, key: str | None = None) -> Connection:
        driver = self.folder.parent / name
        driver.mkdir(exist_ok=True)
        request = Request(folder=str(driver), stream=name, checkpoint=f"/cp/{name}", process=process)
        connection = Client(("127.0.0.1", self.door.port), authkey=(key or self.door.key).encode())
        connection.send_bytes(request.to_bytes())
        return connection


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    gateways, code = Gateways(), list[int]()
    opened: Any = gateways
    monkeypatch.setattr(module, "open_gateway", lambda session: opened)
    folder = tmp_path / "small" / "1"
    folder.mkdir(parents=True)
    files.write_document(folder / HOST, {})
    jvm = processes.identity(os.getppid())
    assert jvm is not None
    served = GroupHost(folder, None, jvm, empty_for=0.0)
    served._count("nobody", present=True)  # so that it does not end before the test does
    thread = threading.Thread(target=lambda: code.append(served.serve()), daemon=True)
    thread.start()
    door = await_door(folder, within=30)
    assert door is not None

    def forget() -> None:
        served._count("nobody", present=False)

    yield Hosted(folder, gateways, code, door, thread, forget)
    forget()
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


def identity(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = processes.identity(child.pid)
    assert found is not None
    return found


def test_a_driver_gets_a_gateway_and_its_queries_end_with_its_process(
    hosted: Hosted, driver: subprocess.Popen[bytes]
) -> None:
    with hosted.knock("counts", identity(driver)) as connection:
        assert json.loads(connection.recv_bytes()) == {"port": 4711, "secret": "s"}
        own = hosted.folder.parent / "counts"
        assert is_leaving(own), "from now on its end is only known when the host has seen it"
        assert hosted.gateways.ended == []
        assert count_members(hosted.folder) == 2
        driver.kill()
        driver.wait()
        until("its departure", lambda: not is_leaving(own), timeout=30)
        assert (own / files.LEFT).exists()
        assert hosted.gateways.ended == ["/cp/counts"]


def test_who_does_not_know_the_key_gets_nothing(hosted: Hosted, driver: subprocess.Popen[bytes]) -> None:
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        hosted.knock("counts", identity(driver), key="guessed").recv_bytes()
    assert not (hosted.folder.parent / "counts" / files.GROUP).exists()


def test_who_connects_and_says_nothing_keeps_nobody_out(hosted: Hosted, driver: subprocess.Popen[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", hosted.door.port)), hosted.knock("counts", identity(driver)) as known:
        assert json.loads(known.recv_bytes())["port"] == 4711


def test_a_query_that_cannot_be_ended_ends_the_jvm(hosted: Hosted, driver: subprocess.Popen[bytes]) -> None:
    hosted.gateways.ends = False
    with hosted.knock("counts", identity(driver)) as connection:
        connection.recv_bytes()
        driver.kill()
        driver.wait()
        hosted.thread.join(30)
    assert hosted.code == [1]
    assert not (hosted.folder.parent / "counts" / files.LEFT).exists(), "nobody starts before the JVM is dead"


def test_an_empty_host_ends_and_is_not_found_any_more(hosted: Hosted) -> None:
    hosted.forget_nobody()
    hosted.thread.join(30)
    assert hosted.code == [0]
    assert not (hosted.folder / DOOR).exists()
    assert not (hosted.folder / HOST).exists()
