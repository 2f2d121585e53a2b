"""The rules of a stream's `spark` section: each kind of cluster has its own keys, and Spark has limits."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.clusters import MANAGERS, UNKNOWN, ClusterManager, manager_of
from streamwarden.config.places import is_file, resolve
from streamwarden.lifecycle.location import URL
from streamwarden.problems import Problem, show
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import CONNECTION_PATTERN

LEAST_MEMORY: Final = 471_859_200
"""Bytes below which neither a driver nor an executor starts: 1.5 x Spark's reserved 300 MiB (UnifiedMemoryManager)."""

_PYTHON: Final = (".py", ".zip", ".egg")
_PACKED: Final = (".zip", ".tar.gz", ".tgz", ".tar", ".jar")


def shipped(spark: SparkSpec, project: Path) -> SparkSpec:
    """`spark` with the paths of its files resolved below the project."""
    return replace(
        spark,
        python=resolve(spark.python, project) if spark.python else spark.python,
        keytab=resolve(spark.keytab, project) if spark.keytab else spark.keytab,
        maven=resolve(spark.maven, project) if spark.maven else spark.maven,
        py_files=tuple(resolve(file, project) for file in spark.py_files),
        archives=tuple(_archive(archive, project) for archive in spark.archives),
    )


def _archive(archive: str, project: Path) -> str:
    file, mark, folder = archive.partition("#")
    return f"{resolve(file, project)}{mark}{folder}"


def cluster_problems(spark: SparkSpec) -> list[Problem]:
    """Problems of a `spark` section whose paths are resolved."""
    manager = manager_of(spark.master)
    if manager is UNKNOWN:
        *most, last = (other.shown for other in MANAGERS)
        allowed = f"{', '.join(most)} or {last}"
        return [Problem(key=("spark", "master"), observed=show(spark.master), allowed=allowed)]
    return [
        *_mode(spark, manager),
        *_connection(spark),
        *_keys(spark, manager),
        *manager.needs(spark),
        *_executors(spark, manager),
        *_kerberos(spark),
        *_files("py_files", spark.py_files, _PYTHON),
        *_files("archives", spark.archives, _PACKED),
        *_maven(spark),
    ]


def _mode(spark: SparkSpec, manager: ClusterManager) -> Iterator[Problem]:
    if spark.deploy_mode is DeployMode.CLUSTER and manager.in_cluster is None:
        why = f"client: {manager.client_only}"
        yield Problem(key=("spark", "deploy_mode"), observed=show(str(spark.deploy_mode)), allowed=why)


def _connection(spark: SparkSpec) -> Iterator[Problem]:
    if spark.connection is not None and not CONNECTION_PATTERN.fullmatch(spark.connection):
        allowed = f"a connection's name that matches {CONNECTION_PATTERN.pattern}"
        yield Problem(key=("spark", "connection"), observed=show(spark.connection), allowed=allowed)


def _keys(spark: SparkSpec, manager: ClusterManager) -> Iterator[Problem]:
    for owner in MANAGERS:
        for key in owner.keys:
            value = getattr(spark, key)
            at = ("spark", key)
            if value is not None and manager is not owner:
                yield Problem(key=at, observed=show(value), allowed=f"nothing: it is for `master: {owner.short}`")
            elif value is not None and not value.strip():
                yield Problem(key=at, observed=show(value), allowed="a name", next_step="name it or delete it")


def _executors(spark: SparkSpec, manager: ClusterManager) -> Iterator[Problem]:
    executors = spark.executors
    for key, value, least, allowed in (
        ("instances", executors.instances, 1, "at least 1"),
        ("cores", executors.cores, 1, "at least 1"),
        ("memory", executors.memory, LEAST_MEMORY, f"at least {LEAST_MEMORY} bytes: Spark does not start with less"),
        ("memory_overhead", executors.memory_overhead, 2**20, "at least 1 MiB"),
    ):
        if value is None:
            continue
        at = ("spark", "executors", key)
        if not manager.has_executors:
            yield Problem(
                key=at, observed=show(value), allowed="nothing: with a local master the driver runs all tasks"
            )
        elif value < least:
            yield Problem(key=at, observed=show(value), allowed=allowed)


def _kerberos(spark: SparkSpec) -> Iterator[Problem]:
    for key, other in (("keytab", "principal"), ("principal", "keytab")):
        if getattr(spark, key) is None and getattr(spark, other) is not None:
            yield Problem(
                key=("spark", key),
                observed="missing",
                allowed=f"a {key}, because {other} is set: Kerberos needs both or none",
                next_step=f"add `{key}: …`, or leave both to the Spark connection",
            )
    if spark.keytab is not None and not is_file(spark.keytab):
        allowed = "a file on this host that the user who launches the stream can read"
        yield Problem(key=("spark", "keytab"), observed=f"there is no file {show(spark.keytab)}", allowed=allowed)


def _maven(spark: SparkSpec) -> Iterator[Problem]:
    if spark.maven is not None and not is_file(spark.maven):
        allowed = "the pom.xml of a Maven project"
        yield Problem(key=("spark", "maven"), observed=f"there is no file {show(spark.maven)}", allowed=allowed)


def _files(key: str, files: tuple[str, ...], endings: tuple[str, ...]) -> Iterator[Problem]:
    for index, file in enumerate(files):
        path = file.partition("#")[0]
        at = ("spark", key, index)
        if not path.endswith(endings) or "," in file:
            allowed = f"a file that ends in {', '.join(endings)}, without a comma in its name"
            yield Problem(key=at, observed=show(file), allowed=allowed)
        elif not URL.match(path) and not is_file(path):
            yield Problem(key=at, observed=f"there is no file {show(path)}", allowed="a file, or a URL")
