"""The rules of a stream's `spark` section: each kind of cluster has its own keys, and Spark has limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden.config.paths import is_file, resolve
from streamwarden.lifecycle.location import URL
from streamwarden.problems import Problem, show
from streamwarden.stream.spark import DeployMode, Manager, SparkSpec
from streamwarden.stream.spec import CONNECTION_PATTERN

LEAST_MEMORY: Final = 471_859_200
"""Bytes below which neither a driver nor an executor starts: 1.5 x Spark's reserved 300 MiB (UnifiedMemoryManager)."""

_IMAGES: Final = (
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image",
)
_PYTHON: Final = (".py", ".zip", ".egg")
_PACKED: Final = (".zip", ".tar.gz", ".tgz", ".tar", ".jar")

_OF_ONE: Final = {
    "queue": (Manager.YARN, "master: yarn"),
    "namespace": (Manager.KUBERNETES, "master: k8s://…"),
    "image": (Manager.KUBERNETES, "master: k8s://…"),
    "service_account": (Manager.KUBERNETES, "master: k8s://…"),
}
"""Keys that only one kind of cluster uses. Spark would ignore them on any other, so they are refused there."""


def shipped(spark: SparkSpec, project: Path) -> SparkSpec:
    """`spark` with the paths of its files resolved below the project."""
    return replace(
        spark,
        keytab=resolve(spark.keytab, project) if spark.keytab else spark.keytab,
        py_files=tuple(resolve(file, project) for file in spark.py_files),
        archives=tuple(_archive(archive, project) for archive in spark.archives),
    )


def _archive(archive: str, project: Path) -> str:
    file, mark, folder = archive.partition("#")
    return f"{resolve(file, project)}{mark}{folder}"


def cluster_problems(spark: SparkSpec) -> list[Problem]:
    """Problems of a `spark` section whose paths are resolved."""
    if spark.manager is None:
        allowed = "local[2], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
        return [Problem(key=("spark", "master"), observed=show(spark.master), allowed=allowed)]
    return [
        *_mode(spark, spark.manager),
        *_connection(spark),
        *_keys(spark, spark.manager),
        *_executors(spark, spark.manager),
        *_kerberos(spark),
        *_files("py_files", spark.py_files, _PYTHON),
        *_files("archives", spark.archives, _PACKED),
    ]


def _mode(spark: SparkSpec, manager: Manager) -> Iterator[Problem]:
    if spark.deploy_mode is DeployMode.CLIENT:
        return
    why = {
        Manager.LOCAL: "client: a local master has no cluster to run a driver in",
        Manager.STANDALONE: "client: Spark cannot run a Python driver in a standalone cluster",
    }.get(manager)
    if why is not None:
        yield Problem(key=("spark", "deploy_mode"), observed=show(str(spark.deploy_mode)), allowed=why)
    if manager is Manager.YARN and spark.connection is None:
        yield Problem(
            key=("spark", "connection"),
            observed="missing",
            allowed="Airflow's Spark connection, which `deploy_mode: cluster` on YARN needs: its extra names the "
            "ResourceManager (yarn_resourcemanager_webapp_address)",
            next_step="add `connection: …`",
        )


def _connection(spark: SparkSpec) -> Iterator[Problem]:
    if spark.connection is not None and not CONNECTION_PATTERN.fullmatch(spark.connection):
        allowed = f"a connection's name that matches {CONNECTION_PATTERN.pattern}"
        yield Problem(key=("spark", "connection"), observed=show(spark.connection), allowed=allowed)


def _keys(spark: SparkSpec, manager: Manager) -> Iterator[Problem]:
    for key, (owner, master) in _OF_ONE.items():
        value = getattr(spark, key)
        if value is not None and manager is not owner:
            yield Problem(key=("spark", key), observed=show(value), allowed=f"nothing: it is for `{master}`")
        elif value is not None and not value.strip():
            yield Problem(key=("spark", key), observed=show(value), allowed="a name", next_step="name it or delete it")
    if manager is Manager.KUBERNETES and spark.image is None and not any(image in spark.conf for image in _IMAGES):
        yield Problem(
            key=("spark", "image"),
            observed="missing",
            allowed="an image, which `master: k8s://…` needs: driver and executors run in its containers",
            next_step="add `image: …`",
        )


def _executors(spark: SparkSpec, manager: Manager) -> Iterator[Problem]:
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
        if manager is Manager.LOCAL:
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


def _files(key: str, files: tuple[str, ...], endings: tuple[str, ...]) -> Iterator[Problem]:
    for index, file in enumerate(files):
        path = file.partition("#")[0]
        at = ("spark", key, index)
        if not path.endswith(endings) or "," in file:
            allowed = f"a file that ends in {', '.join(endings)}, without a comma in its name"
            yield Problem(key=at, observed=show(file), allowed=allowed)
        elif not URL.match(path) and not is_file(path):
            yield Problem(key=at, observed=f"there is no file {show(path)}", allowed="a file, or a URL")
