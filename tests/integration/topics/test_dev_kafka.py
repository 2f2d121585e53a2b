"""`streamwarden dev kafka`: a broker with the topics that a stream needs, which ends with its command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamwarden.adapters.kafka.dev_broker import create_topics
from streamwarden.errors import SourceError
from support.airflow.harness import free_port, wait_for


@pytest.mark.timeout(180)
def test_a_broker_with_its_topics_until_sigterm(tmp_path: Path) -> None:
    (tmp_path / "config" / "streams").mkdir(parents=True)
    port, log = free_port(), tmp_path / "said"
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
