"""How a driver is submitted: Spark's settings for a stream, and the command that starts its driver. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.clusters import MANAGERS, manager_of
from streamwarden.errors import ConfigError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.location import URL, below
from streamwarden.lifecycle.settings import (
    CHECKPOINT_FILES,
    DELTAS,
    MAINTENANCE,
    RENAMED_AT_ONCE,
    STATE_STORE,
    real_time_format,
)
from streamwarden.redaction import NAMES, redacted_text
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import Backend, StreamSpec

PROVIDERS: Final = {
    Backend.ROCKSDB: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    Backend.HDFS: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
MAINTENANCE_INTERVAL: Final = "2s"
"""How often finished snapshots are uploaded. Spark's 60 s leave a stream that crashes every few seconds with no
snapshot at all, and each of its restarts replays everything since (the check `replay_debt` shows it)."""

MIN_DELTAS_FOR_SNAPSHOT: Final = 5
"""A snapshot after this many committed batches (Spark: 10): a restart replays at most about this many changelogs."""

ROCKSDB_MEMORY_MB: Final = 512
"""Upper bound of the memory of all RocksDB instances of one driver together; without it each one takes its own."""

LOGS_AT_ONCE: Final = {"spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false"}
"""Real-time mode writes both logs before the next batch begins, of a stateless query too: they are what a stop, a check
and a restart go by."""

_JVM_FLAGS: Final = (
    "-XX:+ExitOnOutOfMemoryError",  # a JVM out of memory ends and is restarted; it never lingers half alive
    "-XX:+PerfDisableSharedMem",  # no memory-mapped statistics file whose write-back can stall the JVM
    "-Djava.awt.headless=true",
)

_FILES: Final = frozenset({"spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles"})
"""Settings that list files to ship."""

DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_REDACTION: Final = "spark.redaction.regex"
_REDACTED: Final = f"(?i:{NAMES}|appMasterEnv|driverEnv)"
"""The names of secrets, and what holds a driver's environment: Spark's UI and its plans show every other setting."""
_EXECUTORS_ARE_SEEN: Final = {
    # Spark's REST API is a part of its web UI. It costs a second at the start, which a local driver is spared.
    "spark.ui.enabled": "true",
    "spark.ui.killEnabled": "false",  # the UI has no login: it shows the query, but must not end it
    "spark.executor.processTreeMetrics.enabled": "true",  # resident memory, with Python and RocksDB; not the heap alone
}

_UI_PORT: Final = {"spark.ui.port": "0"}
"""Any free one: many drivers share a host, and 4040 would run out after sixteen of them. A pod has its own network, and
Kubernetes refuses one that announces the port 0."""


def spark_conf(spec: StreamSpec) -> dict[str, str]:
    """Spark's settings for `spec`; a setting in `spec.spark.conf` wins over every derived one."""
    state = spec.state
    rocksdb = f"{STATE_STORE}.rocksdb"
    conf = {
        "spark.master": spec.spark.master,
        "spark.app.name": spec.name,
        "spark.driver.memory": f"{max(1, spec.spark.driver_memory // 2**20)}m",
        "spark.submit.deployMode": spec.spark.deploy_mode.value,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.shuffle.partitions": str(state.shuffle_partitions),
        f"{STATE_STORE}.providerClass": provider_class(state.backend),
        f"{STATE_STORE}.encodingFormat": state.encoding.value,
        MAINTENANCE: MAINTENANCE_INTERVAL,
        DELTAS: str(MIN_DELTAS_FOR_SNAPSHOT),
        f"{STATE_STORE}.commitValidation.enabled": "true",
        f"{STATE_STORE}.stateSchemaCheck": "true",
        "spark.sql.streaming.stopTimeout": str(int(spec.stop.term_deadline * 1000)),
    }
    if spec.source.DECLARED:
        conf["spark.sql.session.timeZone"] = "UTC"  # what a job writes does not depend on the machine it runs on
    if state.backend is Backend.ROCKSDB:
        conf |= {
            f"{rocksdb}.changelogCheckpointing.enabled": str(state.changelog).lower(),
            f"{rocksdb}.boundedMemoryUsage": "true",
            f"{rocksdb}.maxMemoryUsageMB": str(ROCKSDB_MEMORY_MB),
        }
    if all(_is_local(path) for path in (spec.checkpoint, spec.sink.path) if path is not None):
        conf[CHECKPOINT_FILES] = RENAMED_AT_ONCE
    if spec.trigger.real_time is not None:
        conf |= real_time_format(spec) | LOGS_AT_ONCE
    manager = manager_of(spec.spark.master)
    conf |= manager.conf
    if manager.has_executors:
        conf |= _EXECUTORS_ARE_SEEN if _in_image(spec.spark) else _EXECUTORS_ARE_SEEN | _UI_PORT
    return conf | cluster_conf(spec.spark) | _shipped(spec.spark.conf, spec.project)


def _in_image(spark: SparkSpec) -> bool:
    """Whether the driver runs in a container of its own."""
    given = manager_of(spark.master).in_cluster
    return spark.deploy_mode is DeployMode.CLUSTER and given is not None and given.image


def _shipped(conf: Mapping[str, str], project: str) -> dict[str, str]:
    """`conf` with the relative paths of files that Spark ships below the project, as the file's own keys have them."""
    files = {key: [path.strip() for path in conf[key].split(",")] for key in _FILES & conf.keys()}
    return {**conf, **{key: ",".join(below(path, project) for path in paths if path) for key, paths in files.items()}}


def cluster_conf(spark: SparkSpec) -> dict[str, str]:
    """Spark's settings for what the spec says of cluster, executors, Kerberos and shipped files; others are left out.

    They are in the properties file, where spark-submit takes them for its options of the same meaning (`--queue`, …).
    """
    executors = spark.executors
    given: dict[str, str | int | None] = {
        **manager_of(spark.master).count(executors),
        "spark.executor.cores": executors.cores,
        "spark.executor.memory": _mebibytes(executors.memory),
        "spark.executor.memoryOverhead": _mebibytes(executors.memory_overhead),
        **{name: getattr(spark, key) for manager in MANAGERS for key, names in manager.keys.items() for name in names},
        "spark.kerberos.principal": spark.principal,
        "spark.kerberos.keytab": spark.keytab,
        "spark.submit.pyFiles": ",".join(spark.py_files) or None,
        "spark.archives": ",".join(spark.archives) or None,
    }
    return {key: str(value) for key, value in given.items() if value is not None}


def cluster_environment(
    spec: StreamSpec, variables: Mapping[str, str], *, secret: Collection[str] = ()
) -> dict[str, str]:
    """The settings that give a driver in cluster mode its environment, which it does not have from its launcher.

    A secret value has to be in a secret of the cluster if other users can read a driver's environment there, and the
    stream's conf has to name that secret.

    Args:
        secret: names of the variables that hold a password.

    Raises:
        ConfigError: a secret that no setting of the stream's conf gives (`spark.kubernetes.driver.secretKeyRef`).
    """
    given, settings = manager_of(spec.spark.master).in_cluster, dict[str, str]()
    if given is None:  # it runs no drivers
        return settings
    for name, value in variables.items():
        from_secret = None if given.reference is None else f"{given.reference}{name}"
        if from_secret in spec.spark.conf:
            continue
        if from_secret is not None and name in secret:
            raise ConfigError(
                f"{name} holds a secret",
                expected="a secret of the cluster: a pod's plain environment is for everybody to read",
                where=f"spark.conf of stream {spec.name}",
                next_step=f"put it into a secret of the namespace, and `{from_secret}: SECRET:KEY` into spark.conf",
            )
        settings[f"{given.variable}{name}"] = value
    return settings


def _is_local(path: str) -> bool:
    return not URL.match(of_hadoop(path))


def _mebibytes(size: int | None) -> str | None:
    return None if size is None else f"{max(1, size // 2**20)}m"


def provider_class(backend: Backend | str) -> str:
    """The full name of the StateStoreProvider's class."""
    return PROVIDERS[backend] if isinstance(backend, Backend) else backend


def driver_properties(spec: StreamSpec, folder: Path, *, python: str, jvm_flags: Sequence[str] = ()) -> dict[str, str]:
    """`spark_conf` and what belongs to one driver: its temporary files, its interpreter, its JVM flags."""
    temporary = str(folder / files.TEMPORARY)
    here = spec.spark.deploy_mode is DeployMode.CLIENT  # else the cluster's own folders and JVM are what there is
    own = {
        **({"spark.local.dir": temporary} if here else {}),
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": python,
        # A folder of helper modules beside the job is importable in the workers, as it is in the driver.
        "spark.executorEnv.PYTHONPATH": str(Path(spec.job).parent),
    }
    conf = own | spark_conf(spec)
    manager = manager_of(spec.spark.master)
    if manager.has_executors:
        _prepend(conf, "spark.executor.extraJavaOptions", [executor_tag(folder.name), *manager.executor_options])
    conf = {**manager.labels(folder.name), **conf}
    if manager.tags:
        conf[manager.tags] = ",".join(filter(None, [folder.name, conf.get(manager.tags)]))
    conf[_REDACTION] = "|".join(filter(None, [_REDACTED, conf.get(_REDACTION)]))
    flags = [*_JVM_FLAGS, *jvm_flags, f"-Djava.io.tmpdir={_quoted(temporary)}"] if here else list(_JVM_FLAGS)
    _prepend(conf, DRIVER_OPTIONS, flags)
    return conf


def _prepend(conf: dict[str, str], key: str, options: Sequence[str]) -> None:
    """Put our options before those of the stream's file: of two options of the same kind the JVM takes the later."""
    conf[key] = " ".join(filter(None, [*options, conf.get(key)]))


def secret_options(conf: Mapping[str, str], folder: Path) -> tuple[dict[str, str], str | None]:
    """`conf` whose JVM options are in a file if one of them holds a secret, and the content of that file.

    Spark passes `spark.driver.extraJavaOptions` as arguments, which everybody on the host can read. The JVM takes the
    name of a file with arguments in their place (`@FILE`).
    """
    options = conf.get(DRIVER_OPTIONS, "")
    if redacted_text(options) == options:
        return dict(conf), None
    return {**conf, DRIVER_OPTIONS: _quoted(f"@{folder / files.OPTIONS}")}, f"{options}\n"


def executor_tag(driver_id: str) -> str:
    """A text in the command line of each executor of that driver: it identifies them on any host."""
    return f"-Dstreamwarden.driver={driver_id}"


def properties_text(conf: Mapping[str, str]) -> str:
    """`conf` as a Java properties file: ASCII, escaped, sorted. Raises ConfigError for a key that is not Spark's."""
    lines = []
    for key, value in sorted(conf.items()):
        if not re.fullmatch(r"spark\.[A-Za-z0-9_.$\-]+", key):
            raise ConfigError(
                f"{key!r} is not a Spark setting",
                expected="a key that starts with spark.",
                where="spark.conf",
                next_step="correct or remove the key",
            )
        lines.append(f"{key}={_escaped(value)}\n")
    return "".join(lines)


def submit_command(
    spec: StreamSpec, folder: Path, *, runner: Path, spark_submit: str, prefix: Sequence[str] | None = None
) -> list[str]:
    """The argv of a driver. It holds neither settings nor secrets: those are in the folder and the environment.

    Args:
        runner: path of `streamwarden/spark/programs/driver.py`.
        spark_submit: path of spark-submit, used when no prefix is given.
        prefix: a spark-submit command that Airflow's hook built, options only, without an application.
            Its options win over the properties file, as spark-submit defines it.
    """
    command = list(prefix) if prefix else [spark_submit]
    if "--properties-file" not in command:
        command += ["--properties-file", str(folder / files.PROPERTIES)]
    return [*command, str(runner), str(folder)]


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    utf16 = escaped.encode("utf-16-be")
    units = (int.from_bytes(utf16[i : i + 2], "big") for i in range(0, len(utf16), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)
