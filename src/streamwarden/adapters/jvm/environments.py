"""The Python environment in which a stream's Spark runs: that of this process, or the one that the stream names.

Another environment is only asked where its packages are: neither PySpark nor anything else of it is imported here. What
replays the job of such a stream (its driver, twins, audits, the reading of its state and of its plan) runs there, with
the PySpark and the Streamwarden that are installed there. Supervisors, stores and verification stay in this one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.jvm.spark_home import QUICK, spark_home
from streamwarden.checkpoint.spark_support import Feature, Version, lacks, parsed, shown
from streamwarden.errors import ConfigError
from streamwarden.extras import PACKAGES, installed
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec

ANSWERS_WITHIN: Final = 30.0
"""Seconds; it takes 0.05 on an idle machine."""

_OF_THIS: Final = frozenset({"PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX"})
"""Variables that say where the packages of this process are."""

_CORE: Final = "spark-core_"

_REQUIREMENT: Final = "streamwarden=={}"

_ASK: Final = f"""
import importlib.util, json, sys
wanted = {list(PACKAGES)}
def folder(name):
    found = importlib.util.find_spec(name)
    return found and found.submodule_search_locations and list(found.submodule_search_locations)[0]
print(json.dumps(dict(prefix=sys.prefix, path=[entry for entry in sys.path if entry],
    python="%d.%d.%d" % sys.version_info[:3], spark=folder("pyspark"), product=folder("streamwarden"),
    packages=[name for name in wanted if importlib.util.find_spec(name)])))
"""
"""Finds the packages without importing them: the answer takes as long as the start of the interpreter."""


@dataclass(frozen=True, slots=True)
class SparkEnvironment:
    """Where a stream's Spark is.

    Args:
        python: its interpreter; prefix: the environment's folder; path: where that interpreter looks for packages.
        python_version: of the interpreter; home: the folder of Spark.
        version, scala: of Spark, by the name of its jar: `4.1.4` and `2.13`.
        product: the folder of the package `streamwarden`.
        packages: those of Streamwarden's extras that are installed there.
    """

    python: str
    python_version: str
    prefix: Path
    path: tuple[str, ...]
    home: Path
    version: str
    scala: str
    product: Path
    packages: frozenset[str]

    @property
    def minor(self) -> Version:
        """Major and minor version of Spark."""
        return parsed(self.version)

    @property
    def submit(self) -> str:
        """Its spark-submit."""
        return str(self.home / "bin" / "spark-submit")

    @property
    def programs(self) -> Path:
        """The programs that its spark-submit runs: the driver of a stream, those of audits, twins and crash matrices.
        They are those of its own Streamwarden: a program finds its modules by the same interpreter."""
        return self.product / "spark" / "programs"

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """`environ` for a process that runs on this Spark. Of another environment than this process's own, the search
        path of this one's packages is left out: a module of the same name would hide that environment's."""
        mine = {
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_DRIVER_PYTHON": self.python,
        }
        if self.python == sys.executable:
            return {**environ, **mine}
        kept = {name: value for name, value in environ.items() if name not in _OF_THIS}
        return {**kept, **mine, "VIRTUAL_ENV": str(self.prefix)}


def environment_of(spark: SparkSpec) -> SparkEnvironment:
    """The environment that a stream names, or this one. Raises ProcessError if this one has no PySpark, and ConfigError
    if the named one cannot run a driver."""
    return own() if spark.python is None else named(spark.python)


def require(spec: StreamSpec, feature: Feature | None) -> None:
    """Raise ConfigError if the stream's Spark lacks the feature."""
    if feature is None or spec.spark.python is None:
        return
    runs_in, since = named(spec.spark.python), feature.value
    if lacks(runs_in.minor, feature):
        raise ConfigError(
            f"{since.title} is not in Spark {runs_in.version}",
            expected=f"Spark {shown(since.version)} or later for it",
            where=f"spark.python of stream {spec.name}: {spec.spark.python}",
            next_step=since.instead,
        )


def own() -> SparkEnvironment:
    """The environment of this process, in which Streamwarden need not be installed: the build of an image has it on the
    search path. Raises ProcessError if there is no PySpark."""
    home = spark_home()
    scala, spark = _versions(home)
    python = "{}.{}.{}".format(*sys.version_info[:3])
    package = Path(__file__).parents[2]
    extras = frozenset(filter(installed, PACKAGES))
    return SparkEnvironment(
        sys.executable, python, Path(sys.prefix), tuple(sys.path), home, spark, scala, package, extras
    )


def named(python: str) -> SparkEnvironment:
    """The environment of another interpreter. Raises ConfigError if it lacks PySpark or this version of Streamwarden.

    It is asked once, and again when a package was installed or removed there.
    """
    return _asked(python, _stamp(python))


def making(spark: Version) -> str:
    """The command that makes an environment with this Spark and this version of Streamwarden."""
    folder = f"/opt/envs/spark{shown(spark).replace('.', '')}"
    packages = f"'pyspark=={shown(spark)}.*' {_REQUIREMENT.format(_here())}"
    return f"{sys.executable} -m venv {folder} && {folder}/bin/python -m pip install {packages}"


def spark_variables(environment: SparkEnvironment, java_home: Path) -> dict[str, str]:
    """This process's variables, for a process on that Spark and this Java.

    Spark's launcher is a separate JVM that runs for a second, so it gets `QUICK` unless the variables have options.
    """
    everything = {"SPARK_LAUNCHER_OPTS": " ".join(QUICK), **os.environ, "JAVA_HOME": str(java_home)}
    return environment.variables(everything)


def _stamp(python: str) -> tuple[int, ...]:
    """Differs when the interpreter or what is installed beside it has changed. Raises ConfigError if there is none."""
    try:
        places = [Path(python), *sorted(Path(python).parents[1].glob("lib/python*/site-packages"))]
        return tuple(place.stat().st_mtime_ns for place in places)
    except (OSError, IndexError) as error:
        raise _unusable(python, f"there is no such file: {error}") from error


@cache
def _asked(python: str, _stamp: tuple[int, ...]) -> SparkEnvironment:
    found = _answer(python)
    if not found["spark"]:
        raise _unusable(python, "PySpark is not installed there", "install the PySpark of the stream there")
    if not found["product"]:
        raise _unusable(python, "Streamwarden is not installed there", _install(python))
    home, product = Path(found["spark"]), Path(found["product"])
    installed = _product_version(found["path"])
    if installed != _here():
        there = f"Streamwarden {installed} is installed there, and {_here()} here"
        raise _unusable(python, there, _install(python))
    scala, spark = _versions(home)
    prefix, paths, extras = Path(found["prefix"]), tuple(found["path"]), frozenset(found["packages"])
    return SparkEnvironment(python, found["python"], prefix, paths, home, spark, scala, product, extras)


def _answer(python: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [python, "-E", "-c", _ASK], capture_output=True, text=True, timeout=ANSWERS_WITHIN, cwd="/", check=True
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise _unusable(python, f"the interpreter does not answer: {said.strip()[-300:]}") from error


def _product_version(path: list[str]) -> str:
    """By the name of the folder that an installer writes; an empty text if there is none."""
    found = [entry.stem for folder in path for entry in Path(folder).glob("streamwarden-*.dist-info")]
    return found[0].partition("-")[2] if found else ""


def _versions(home: Path) -> tuple[str, str]:
    """Scala and Spark, by the name of the jar `spark-core_SCALA-SPARK.jar`. Raises ConfigError if it is missing."""
    for jar in home.glob(f"jars/{_CORE}*.jar"):
        scala, _, spark = jar.stem.removeprefix(_CORE).partition("-")
        return scala, spark
    raise ConfigError(
        "this PySpark has no Spark",
        expected=f"jars/{_CORE}*.jar below it: the package pyspark has it, pyspark-client has not",
        where=str(home),
        next_step="install the package pyspark in place of pyspark-client",
    )


@cache
def _here() -> str:
    return version("streamwarden")


def _install(python: str) -> str:
    return f"run: {python} -m pip install {_REQUIREMENT.format(_here())}"


def _unusable(python: str, observed: str, next_step: str = "correct `spark.python`, or delete it") -> ConfigError:
    return ConfigError(
        observed,
        expected=f"the interpreter of an environment with PySpark and Streamwarden {_here()}",
        where=python,
        next_step=next_step,
    )
