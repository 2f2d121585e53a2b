"""The entry point of the image, as far as it needs no Spark: `tests/engines` runs drivers and executors through it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENTRYPOINT = ROOT / "packaging/kubernetes/entrypoint.sh"
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "600m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "counts-exec-1",
}


def run(*arguments: str, user: int | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        [str(ENTRYPOINT), *arguments],
        env=environment,
        user=user,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_image_starts_with_it() -> None:
    assert f'"/opt/streamwarden/{ENTRYPOINT.relative_to(ROOT)}"]' in (ROOT / "Dockerfile").read_text()
    assert os.access(ENTRYPOINT, os.X_OK)


def test_any_other_argument_is_a_command_with_its_own_exit_code() -> None:
    done = run("sh", "-c", "echo $1; exit 3", "sh", "two words")
    assert (done.returncode, done.stdout) == (3, "two words\n")


@pytest.mark.parametrize("missing", EXECUTOR)
def test_an_executor_without_a_variable_of_sparks_says_which(missing: str) -> None:
    done = run("executor", **{name: value for name, value in EXECUTOR.items() if name != missing})
    assert done.returncode == 78
    observed, expected, where, next_step = done.stderr.splitlines()
    assert observed == f"the variable {missing} is missing"
    assert (expected[:9], where[:6], next_step[:5]) == ("expected:", "where:", "next:")


def test_a_driver_without_its_address_says_so() -> None:
    assert "SPARK_DRIVER_BIND_ADDRESS is missing" in run("driver", "x").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs a program as another user")
def test_a_user_without_a_name_is_told(tmp_path: Path) -> None:
    """Hadoop's login fails for one, with an error that names neither the user nor the way out."""
    copy = Path("/tmp") / f"streamwarden-entrypoint-{os.getpid()}.sh"  # the checkout may not be readable by others
    copy.write_bytes(ENTRYPOINT.read_bytes())
    copy.chmod(0o755)
    try:
        done = subprocess.run(
            [str(copy), "executor"],
            env={"PATH": "/usr/bin:/bin"},
            user=54321,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        copy.unlink()
    assert done.returncode == 78
    assert "user 54321 has no name in this image" in done.stderr
    assert "runAsUser: 1000" in done.stderr
