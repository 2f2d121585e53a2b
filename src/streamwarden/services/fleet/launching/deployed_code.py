"""The code that a driver is launched with: digests of the job's files, and the versions of the packages.

Two launches with the same code have the same document, so a difference shows what was deployed between them.
"""

import hashlib
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.jvm.environments import named
from streamwarden.adapters.jvm.maven_project import sources
from streamwarden.lifecycle.job_files import files_of
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import StreamSpec

PROGRAMS: Final = Path(__file__).parents[3] / "spark" / "programs"
"""The programs that `spark-submit` runs: the driver of a stream, and those of audits, twins and crash matrices."""


def code_of(spec: StreamSpec) -> dict[str, Any]:
    """`files`: path in the project -> SHA-256 of the job, of the modules beside it that it imports, of `spark.py_files`
    and of the sources of `spark.maven`; `packages`: name -> version, unless the driver runs in a cluster, which has its
    own packages.

    A file that cannot be read is left out: the launch does not depend on it. Raises ConfigError for an environment that
    the stream names and that cannot run a driver.
    """
    return _code(spec, files_of(Path(spec.job)) | _shipped(spec.spark))


def shipped_code_of(spec: StreamSpec) -> dict[str, Any]:
    """`code_of` without the job and the modules beside it. Raises ConfigError."""
    return _code(spec, _shipped(spec.spark))


def _shipped(spark: SparkSpec) -> dict[Path, bytes]:
    contents = {}
    project = () if spark.maven is None else sources(Path(spark.maven))
    for shipped in (*map(Path, spark.py_files), *project):
        with suppress(OSError):
            contents[shipped] = shipped.read_bytes()
    return contents


def _code(spec: StreamSpec, contents: Mapping[Path, bytes]) -> dict[str, Any]:
    here = spec.spark.deploy_mode is DeployMode.CLIENT
    return {
        "files": {
            _in_project(file, spec.project): hashlib.sha256(content).hexdigest() for file, content in contents.items()
        },
        "packages": _packages_of(spec.spark) if here else {},
    }


def _packages_of(spark: SparkSpec) -> dict[str, str]:
    if spark.python is None:
        return packages(sys.path)
    runs_in = named(spark.python)
    return packages(runs_in.path, runs_in.python_version)


def packages(path: Sequence[str], python: str = platform.python_version()) -> dict[str, str]:
    """Name -> version of Python and of each package that is installed in the folders of `path`; the first folder that
    has a package wins, as in an import. Only the names of folders are read: some hundred packages take a millisecond.
    """
    versions = {"python": python}
    for name, version in (package for folder in path for package in _installed(folder)):
        versions.setdefault(name, version)
    return versions


def _installed(folder: str) -> Iterator[tuple[str, str]]:
    """`NAME-VERSION.dist-info`, as the format of wheels demands: the name has no hyphen."""
    with suppress(OSError):  # an entry that does not exist, or a zip file
        for entry in Path(folder).glob("*-*.dist-info"):
            name, _, version = entry.stem.partition("-")
            yield name.lower(), version


def _in_project(file: Path, project: str) -> str:
    return str(file.relative_to(project)) if project and file.is_relative_to(project) else str(file)
