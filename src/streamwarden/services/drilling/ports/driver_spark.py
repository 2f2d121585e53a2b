"""The Spark of a fork's drivers: a file in the folder of the run names the interpreter beside which it is installed."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.jvm.environments import SparkEnvironment, environment_of
from streamwarden.config.spark_environment import problems_on
from streamwarden.drills.faults.driver.upgrade_spark import DRIVER_SPARK
from streamwarden.errors import ConfigError, DrillAborted
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports import Offer
from streamwarden.stream.spec import StreamSpec

PYTHON: Final = "python"
"""The file in the folder of a run: the path of the interpreter."""


class ForkSpark:
    """Implements `DriverSpark`."""

    def __init__(self, archive: DrillArchive) -> None:
        self._archive = archive

    def versions(self, spec: StreamSpec, python: str) -> tuple[str, str]:
        before, after = (_environment(version) for version in (spec, _on(spec, python)))
        if before.version == after.version:
            raise DrillAborted(
                f"{python} has Spark {after.version}, and {spec.name} runs on it already",
                expected="another version of Spark",
                where="fault.python",
                next_step="name an environment with another PySpark, or drill the stream with `controlled_restart`",
            )
        for problem in problems_on(_on(spec, python), after):
            raise DrillAborted(
                f"{spec.name} cannot run on Spark {after.version}: {problem.observed}",
                expected=problem.allowed,
                where=problem.dotted,
                next_step=problem.next_step or "name another environment",
            )
        return before.version, after.version

    def choose(self, run_id: str, python: str) -> None:
        disk.replace(self._file(run_id), python)

    def chosen(self, run_id: str) -> str | None:
        file = self._file(run_id)
        return file.read_text() if file.exists() else None

    def of_run(self, spec: StreamSpec, run_id: str) -> StreamSpec:
        """The fork as the next driver of the run has to be started."""
        python = self.chosen(run_id)
        return spec if python is None else _on(spec, python)

    def _file(self, run_id: str) -> Path:
        return self._archive.folder(run_id) / PYTHON


def _on(spec: StreamSpec, python: str) -> StreamSpec:
    return replace(spec, spark=replace(spec.spark, python=python))


def _environment(spec: StreamSpec) -> SparkEnvironment:
    """Raises DrillAborted if no driver can run in it."""
    try:
        return environment_of(spec.spark)
    except ConfigError as error:
        raise DrillAborted.of(error) from error


OFFERS: Final = (Offer(DRIVER_SPARK, lambda at: ForkSpark(at.archive)),)
