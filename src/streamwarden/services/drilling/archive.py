"""A drill run's folder: the journal, the report, and the locks of the run. And the system's clock."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.adapters.jvm.environments import SparkEnvironment, own
from streamwarden.drills.runs import check_run_id
from streamwarden.errors import ConfigError, DrillError, ProcessError
from streamwarden.redaction import redacted, redacted_text

JOURNAL: Final = "journal.json"
SUMMARY: Final = "report.md"

_LOCK: Final = "step.lock"
_TENURE: Final = "run.lock"
_LOCK_WAIT: Final = 30.0
_PACKAGES: Final = ("streamwarden", "pyspark", "apache-airflow", "great-expectations", "pandas", "pyarrow", "duckdb")


class SystemClock:
    """Unix time and real sleep."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class DrillArchive:
    """Folders `DATA/drills/RUN_ID`. Implements `drills.ports.Archive`.

    Args:
        runs_in: the environment in which a stream's Spark runs. Raises ConfigError.
    """

    def __init__(
        self,
        data: Path,
        *,
        lock_wait: float = _LOCK_WAIT,
        sleep: Callable[[float], None] = time.sleep,
        runs_in: Callable[[str], SparkEnvironment] = lambda _: own(),
    ) -> None:
        self._drills = data / "drills"
        self._lock_wait = lock_wait
        self._sleep = sleep
        self._runs_in = runs_in

    @property
    def root(self) -> Path:
        """The folder of all runs."""
        return self._drills

    def folder(self, run_id: str) -> Path:
        """The run's folder, which is created if necessary. Raises DrillError for an id that is not a safe path."""
        folder = self._drills / check_run_id(run_id)
        disk.private_folder(folder, below=self._drills.parent)
        return folder

    def write(self, run_id: str, document: Mapping[str, Any], summary: str) -> str:
        folder = self.folder(run_id)
        disk.replace(folder / SUMMARY, redacted_text(summary), mode=disk.PRIVATE)
        text = json.dumps(redacted(document), indent=2, sort_keys=False, default=str) + "\n"
        disk.replace(folder / JOURNAL, text, mode=disk.PRIVATE)
        return str(folder / JOURNAL)

    def lock(self, run_id: str) -> AbstractContextManager[object]:
        """The kernel releases it when its holder dies. Raises DrillError if another process keeps it."""
        return self._locked(self.folder(run_id) / _LOCK)

    @contextmanager
    def tenure(self, run_id: str) -> Iterator[bool]:
        with disk.locked(self.folder(run_id) / _TENURE, wait=0) as file:
            yield file is not None

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        with disk.locked(path, wait=self._lock_wait, sleep=self._sleep) as file:
            if file is None:
                raise DrillError(
                    "another process is working on this drill run",
                    expected="one step at a time",
                    where=str(path.parent),
                    next_step="wait until it has ended; an earlier try of the same task ends by itself",
                )
            yield

    def versions(self, stream: str) -> Mapping[str, str]:
        """The versions of everything that the verdict depends on; PySpark's is that of the stream's environment."""
        versions = {"python": platform.python_version(), "kernel": f"{platform.system()} {platform.release()}"}
        for name in _PACKAGES:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = "not installed"
        with suppress(ConfigError, ProcessError):  # the step that needs the stream or its Spark reports it
            versions["pyspark"] = self._runs_in(stream).version
        return {**versions, "cpus": str(os.cpu_count())}
