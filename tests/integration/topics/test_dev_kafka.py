"""`streamwarden dev kafka`: a broker with the topics that a stream needs, which ends with its command."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamwarden.adapters.kafka.dev_broker import create_topics, require_free
from streamwarden.errors import ProcessError, SourceError
from support.airflow.harness import free_port, wait_for


def two_free_ports() -> int:
    """The first of two ports in a row that are free."""
    while True:
        port = free_port()
        with contextlib.suppress(ProcessError):
            require_free(port, port + 1)
            return port


@pytest.mark.timeout(180)
def test_a_broker_with_its_topics_until_sigterm(tmp_path: Path) -> None:
    (tmp_path / "config" / "streams").mkdir(parents=True)
    port, log = two_free_ports(), tmp_path / "said"
    command = [
        sys.executable,
        "-m",
        "streamwarden.cli",
        "--project",
        str(tmp_path),
        "dev",
        "kafka",
        "--port",
        str(port),
    ]
    with log.open("wb") as out:
        shell = subprocess.Popen([*command, "--topic", "clicks", "--topic", "views"], stdout=out, stderr=out)
    try:
        wait_for("the topics", lambda: "created the topic views" in log.read_text(), timeout=90, explain=log.read_text)
        assert "created the topic clicks" in log.read_text()
        assert create_topics(f"127.0.0.1:{port}", ["views", "orders"], 1) == ["orders"]
        with pytest.raises(SourceError, match="cannot be created"):
            create_topics(f"127.0.0.1:{port}", ["not/a/topic"], 1)
    finally:
        shell.terminate()
        shell.wait(60)
    brokers = subprocess.run(["pgrep", "-f", str(tmp_path / "var" / "dev" / "kafka")], capture_output=True, check=False)
    assert brokers.stdout == b""


@pytest.mark.parametrize("taken", [0, 1])
def test_a_port_that_is_taken_is_named_before_anything_starts(taken: int) -> None:
    first = two_free_ports()
    with socket.socket() as other:
        other.bind(("127.0.0.1", first + taken))
        other.listen()
        with pytest.raises(ProcessError, match=f"the port {first + taken} is in use"):
            require_free(first, first + 1)
