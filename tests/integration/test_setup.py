"""`scripts/setup.sh --tests` on a machine without the programs that the tests need.

As root with apt it installs them; elsewhere it stops and prints the one command. A copy of the script runs with a PATH
of its own, so nothing of this checkout and of this machine changes.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"
TOOLS = ("bash", "sh", "dirname", "flock", "mktemp", "tail", "rm", "mkdir")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The script, and a folder of programs with neither Chromium nor Maven nor apt; its user is root."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    program(tmp_path, "id", "echo 0")
    return tmp_path


def program(machine: Path, name: str, text: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def set_up(machine: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(machine / "bin"), "TMPDIR": str(machine), "HOME": str(machine)}
    command = [str(machine / "scripts" / "setup.sh"), "--tests"]
    return subprocess.run(["bash", *command], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_without_apt_it_stops_and_prints_the_one_command(machine: Path) -> None:
    done = set_up(machine)
    assert done.returncode == 1
    assert "a program that the tests need is missing" in done.stderr
    (command,) = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    assert command.startswith("[setup]     sudo sh -c '")
    assert "chromium-headless-shell maven" in command
    assert not (machine / ".venv").exists()


def test_without_root_it_stops_too(machine: Path) -> None:
    program(machine, "apt-get", f"touch {machine}/called")
    program(machine, "id", "echo 1000")
    done = set_up(machine)
    assert (done.returncode, "sudo sh -c" in done.stderr) == (1, True)
    assert not (machine / "called").exists()


def test_as_root_with_apt_it_installs_what_is_missing(machine: Path) -> None:
    """An apt that installs nothing: the set-up notices, and does not go on."""
    program(machine, "apt-get", f'echo "$@" >>{machine}/called')
    done = set_up(machine)
    update, install = (machine / "called").read_text().splitlines()
    assert update == "update"
    assert install.startswith("install -y --no-install-recommends chromium-headless-shell maven")
    assert done.returncode == 1
    assert "still missing after the installation: chromium-headless-shell maven" in done.stderr


def test_an_installation_that_fails_ends_the_set_up_with_its_reason(machine: Path) -> None:
    program(machine, "apt-get", 'echo "no network"; exit 100')
    done = set_up(machine)
    assert done.returncode == 1
    assert "no network" in done.stderr
    assert "could not be installed" in done.stderr
