"""A container engine for tests, and the project of a person who has just cloned the repository.

An engine that answers on this machine is used, with the images of the registry that it knows. Otherwise
scripts/container_engine.sh makes one, with stand-ins for PostgreSQL's, Kafka's and Python's images. The script says
where they differ. It needs root on Debian; elsewhere the tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.jvm import maven
from support.airflow.harness import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "container_engine.sh"
STARTS_WITHIN, STOPS_WITHIN = 1800.0, 180.0
PROJECT = "streamwarden-tests"
"""Compose's name for containers and volumes: those of a person on this machine are others."""


@contextmanager
def engine() -> Iterator[Mapping[str, str]]:
    """The environment in which `docker compose` works. An engine that was made here ends with it, its data too."""
    if answers(os.environ):
        yield {**os.environ, "COMPOSE_PROJECT_NAME": PROJECT}
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("no container engine answers, and only root on Debian can make one")
    folder = tempfile.mkdtemp(prefix="streamwarden-engine-")
    try:
        jars = maven.resolve(maven.KAFKA_BROKER)[0].parent
        made = subprocess.run(
            [SCRIPT, "start", folder, jars], stdout=subprocess.PIPE, text=True, timeout=STARTS_WITHIN, check=True
        )
        variables = dict(line.split("=", 1) for line in made.stdout.splitlines())
        yield {**os.environ, **variables, "COMPOSE_PROJECT_NAME": PROJECT}
    finally:
        subprocess.run([SCRIPT, "stop", folder], timeout=STOPS_WITHIN, check=True)


def answers(environment: Mapping[str, str]) -> bool:
    """Whether `docker compose` can be used."""
    if shutil.which("docker", path=environment.get("PATH")) is None:
        return False
    asked = (["docker", "info"], ["docker", "compose", "version"])
    return all(
        subprocess.run(each, env=environment, capture_output=True, timeout=30, check=False).returncode == 0
        for each in asked
    )


def cloned(folder: Path) -> Path:
    """The files that git knows or would add, copied to `folder`."""
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    return folder


@dataclass(frozen=True)
class Shell:
    """A shell in the folder of the clone, as a person has it open."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, text: str, *, within: float = 120.0) -> str:
        """What the commands print, with the status of the first that fails."""
        done = self.tried(text, within=within)
        assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    def tried(self, text: str, *, within: float = 120.0) -> subprocess.CompletedProcess[str]:
        """The commands, which may fail."""
        return subprocess.run(
            ["bash", "-euc", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def start(self, text: str, log: Path) -> subprocess.Popen[bytes]:
        """The commands, in another terminal."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["bash", "-euc", text],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def services(self) -> dict[str, dict[str, Any]]:
        """What `docker compose ps` knows of each container, those that ended too, by its service."""
        lines = self.run("docker compose ps --all --format json").splitlines()
        return {container["Service"]: container for container in map(json.loads, lines)}

    def answer(self, database: str, query: str) -> list[list[str]]:
        """The rows of a query to the PostgreSQL of the containers; none if it fails."""
        command = f"docker compose exec -T postgres psql -U streamwarden -d {database} -At -F ' ' -c \"{query}\""
        return [line.split(" ") for line in self.tried(command).stdout.splitlines()]
