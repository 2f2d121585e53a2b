"""Spark's UI listens on the loopback interface, and executors of other hosts still find the driver."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

import pytest

from streamwarden.services.fleet.launching.addresses import (
    ADVERTISED,
    INTERFACE,
    address_towards,
    listening_environment,
)
from streamwarden.stream.spark import DeployMode, SparkSpec


@pytest.fixture
def local_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A host name that stands for the loopback interface, as the own name of a Debian host does."""
    real = socket.socket.connect

    class Socket(socket.socket):
        def connect(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            real(self, ("127.0.1.1" if address[0] == "node-1" else address[0], address[1]))

    monkeypatch.setattr(socket, "socket", Socket)
    return "node-1"


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_a_local_driver_listens_on_the_loopback_interface(master: str) -> None:
    assert listening_environment(SparkSpec(master=master), {}) == {INTERFACE: "127.0.0.1"}


def test_a_driver_of_a_cluster_on_this_host_is_found_there() -> None:
    found = listening_environment(SparkSpec(master="spark://127.0.0.1:7077"), {})
    assert found == {INTERFACE: "127.0.0.1", ADVERTISED: "127.0.0.1"}


@pytest.mark.parametrize("master", ["spark://192.0.2.1:7077,192.0.2.2:7077", "k8s://https://192.0.2.1:6443"])
def test_a_driver_of_another_hosts_cluster_is_found_at_this_hosts_address(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", _Routed)
    assert listening_environment(SparkSpec(master=master), {}) == {INTERFACE: "127.0.0.1", ADVERTISED: "198.51.100.7"}


class _Routed:
    """A socket of a host whose way to 192.0.2.0/24 leaves from 198.51.100.7."""

    def __init__(self, *_: object) -> None:
        self._peer = ("", 0)

    def __enter__(self) -> _Routed:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def connect(self, address: tuple[str, int]) -> None:
        assert ipaddress.ip_address(address[0]) in ipaddress.ip_network("192.0.2.0/24")
        self._peer = address

    def getsockname(self) -> tuple[str, int]:
        return "198.51.100.7", 40000

    def getpeername(self) -> tuple[str, int]:
        return self._peer


def test_spark_chooses_where_the_way_to_the_master_is_not_known(local_name: str) -> None:
    """A loopback address would be wrong for executors of other hosts."""
    assert address_towards(f"spark://{local_name}:7077") is None
    assert listening_environment(SparkSpec(master=f"spark://{local_name}:7077"), {}) == {}
    assert address_towards("spark://no-such-host.invalid:7077") is None


@pytest.mark.parametrize("name", [INTERFACE, ADVERTISED])
def test_an_interface_that_the_environment_names_is_kept(name: str) -> None:
    assert listening_environment(SparkSpec(), {name: "10.0.0.1"}) == {}


def test_a_cluster_manager_that_protects_the_ui_decides_itself() -> None:
    assert listening_environment(SparkSpec(master="yarn"), {}) == {}
    pod = SparkSpec(master="k8s://https://192.0.2.1:6443", deploy_mode=DeployMode.CLUSTER, image="spark")
    assert listening_environment(pod, {}) == {}
