"""The built wheel, installed with each extra into an environment of its own, does what the extra promises.

An environment is made from the packages of the lock, by uv and its cache. The driver's environment is the base beside a
PySpark of its own, as the environment of a stream.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamwarden.adapters.jvm.environments import named
from streamwarden.errors import ConfigError

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")

PROMISES = {
    "kafka": "from streamwarden.adapters.kafka.brokers import *; reader(Connection(name='b', host='b'), 'x')",
    "postgresql": "import streamwarden.adapters.postgresql.access",
    "object-stores": "import pyarrow.fs",
    "kubernetes": "from airflow.providers.cncf.kubernetes.kube_client import get_kube_client",
    "hdfs": "from streamwarden.adapters.storage.files import open_path; open_path('hdfs://name:8020/a')",
    "verify": "import streamwarden.services.crash_matrix.recording, great_expectations, duckdb",
    "demo": "from streamwarden.services.replay.flights import departures; assert len(departures()) == 336_776",
    "airflow,web": "from streamwarden.airflow.plugin import StreamwardenPlugin; StreamwardenPlugin().fastapi_apps",
}
"""Extra -> Python that works with it, and without it ends with the error that names it."""

OF_OTHERS = ("object-stores", "kubernetes")
"""Extras whose packages Streamwarden does not import itself."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel."""

    folder: Path
    wheel: Path
    constraints: Path

    def add(self, *requirements: str) -> None:
        command = [UV, "pip", "install", "--quiet", "--python", self.folder / "bin" / "python"]
        override = self.folder / "override.txt"
        override.write_text("pyspark-client ; sys_platform == 'never'")  # the provider's second copy of PySpark
        run([*command, "--constraint", self.constraints, "--override", override, *requirements])

    def python(self, source: str) -> subprocess.CompletedProcess[str]:
        return run([self.folder / "bin" / "python", "-c", source], check=False)

    def streamwarden(self, *arguments: str, project: Path) -> str:
        return run([self.folder / "bin" / "streamwarden", *arguments], cwd=project).stdout


def run(command: list[str | Path], *, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([UV, "build", "--wheel", "--quiet", "--out-dir", folder, ROOT])
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def constraints(wheel: Path) -> Path:
    """The versions of the lock."""
    file = wheel.with_name("constraints.txt")
    file.write_text("\n".join(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)))
    return file


def fresh(folder: Path, wheel: Path, constraints: Path) -> Environment:
    """The base, in an environment of its own."""
    run([UV, "venv", "--quiet", "--python", sys.executable, folder])
    made = Environment(folder, wheel, constraints)
    made.add(str(wheel))
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, wheel: Path, constraints: Path) -> Environment:
    """The base, which no test adds anything to."""
    return fresh(tmp_path_factory.mktemp("base") / "environment", wheel, constraints)


@pytest.mark.parametrize("extra", [extra for extra in PROMISES if extra not in OF_OTHERS])
def test_without_the_extra_an_error_names_it(base: Environment, extra: str) -> None:
    failed = base.python(PROMISES[extra])
    assert failed.returncode == 1
    assert f"pip install 'streamwarden[{extra.partition(',')[0]}]'" in failed.stderr


def test_a_stream_may_not_name_an_environment_without_pyspark(base: Environment) -> None:
    python = base.folder / "bin" / "python"
    with pytest.raises(ConfigError, match="PySpark is not installed there") as raised:
        named(str(python))
    assert raised.value.where == str(python)


@pytest.mark.parametrize("extra", [pytest.param(extra, marks=pytest.mark.full) for extra in PROMISES])
def test_an_extra_keeps_its_promise(tmp_path: Path, wheel: Path, constraints: Path, extra: str) -> None:
    environment = fresh(tmp_path / "environment", wheel, constraints)
    environment.add(f"{wheel}[{extra}]")
    done = environment.python(PROMISES[extra])
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.spark
def test_the_base_runs_a_stream_beside_another_pyspark(tmp_path: Path, wheel: Path, constraints: Path) -> None:
    environment = fresh(tmp_path / "environment", wheel, constraints)
    environment.add("pyspark==4.3.0")
    project = tmp_path / "project"
    project.mkdir()
    environment.streamwarden("new", "orders", project=project)
    environment.streamwarden("start", "orders", project=project)
    environment.streamwarden("stop", "orders", project=project)
    assert "committed" in environment.streamwarden("inspect", "orders", project=project)
