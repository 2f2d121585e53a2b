"""What of a cluster is away, asked of real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from streamwarden.spark.driver.cluster_manager import what_is_away


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
        return number


@pytest.mark.parametrize(
    ("master", "what"),
    [
        ("spark://127.0.0.1:{}", "the Spark master does not answer (spark://127.0.0.1:"),
        ("spark://127.0.0.1:{0},localhost:{0}", "the Spark master does not answer"),
        ("k8s://https://127.0.0.1:{}", "the API server of Kubernetes does not answer"),
        ("k8s://127.0.0.1:{}", "the API server of Kubernetes does not answer"),
    ],
)
def test_a_manager_that_refuses_connections_is_named_with_its_address(master: str, what: str, closed: int) -> None:
    cause = what_is_away(master.format(closed))
    assert cause is not None
    assert cause.what.startswith(what)
    assert "refused" in cause.what
    assert cause.curable


def test_a_host_whose_name_cannot_be_resolved_is_named() -> None:
    cause = what_is_away("spark://no-such-host.invalid:7077")
    assert cause is not None
    assert cause.what.startswith("the name of a host cannot be resolved (no-such-host.invalid")


def test_one_of_several_masters_is_enough(port: int, closed: int) -> None:
    assert what_is_away(f"spark://127.0.0.1:{closed},127.0.0.1:{port}") is None


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://127.0.0.1:{}", "spark://127.0.0.1:{}"])
def test_what_answers_or_has_no_address_is_not_away(master: str, port: int) -> None:
    assert what_is_away(master.format(port)) is None
