"""Translates SparkSubmitOperator's parameters and connection: spec, spark-submit command, environment.

The command is built by the provider's own hook (`_build_spark_submit_command` is private: the provider is pinned).
Settings go into the spec and from there into the driver's properties file, never into the process's arguments, where
every user of the host could read them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from streamwarden.adapters.jvm.environments import environment_of
from streamwarden.airflow.connections import exported
from streamwarden.clusters import MANAGERS, manager_of
from streamwarden.errors import ConfigError
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_list

_APPLICATION: Final = "the-runner"
_PROPERTY: Final = re.compile(r"(?P<key>[^\s=:#!][^\s=:]*)\s*[=:\s]\s*(?P<value>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything that `Fleet.start` needs, and `Fleet.submit`.

    Args:
        hook: the provider's, as operator and connection made it; it submits what is to run in cluster mode.
    """

    spec: StreamSpec
    command: Sequence[str]
    env: Mapping[str, str]
    hook: SparkSubmitHook


def submission(operator: SparkSubmitOperator, spec: StreamSpec, context: Any) -> Submission:
    """Merge the operator's parameters over `spec`, and give the driver the stream's connections.

    Raises ConfigError for what a detached driver cannot do, and for a connection that Airflow does not know.
    """
    conf = {str(key): str(value) for key, value in (operator.conf or {}).items()}
    if operator._openlineage_inject_parent_job_info:
        conf = inject_parent_job_information_into_spark_properties(conf, context)
    if operator._openlineage_inject_transport_info:
        conf = inject_transport_information_into_spark_properties(conf, context)
    properties = _read_properties(Path(operator.properties_file)) if operator.properties_file else {}

    cluster = deploy_mode(operator, spec) is DeployMode.CLUSTER
    hook = _hook(operator, cluster=cluster)
    connection = hook._connection
    spark = replace(
        spec.spark,
        master=connection["master"],
        deploy_mode=DeployMode(connection["deploy_mode"] or spec.spark.deploy_mode),
        conf={**spec.spark.conf, **properties, **conf},
    )
    if cluster and manager_of(spark.master).in_cluster is None:
        able = [manager.title for manager in MANAGERS if manager.in_cluster is not None]
        raise ConfigError(
            f"deploy mode cluster on {spark.master}",
            expected=f"client: Spark runs a Python driver in the cluster on {format_list(able)} alone",
            where=f"connection {operator._conn_id} of stream {spec.name}",
            next_step="set deploy-mode to client",
        )
    env = exported(spec.connections)
    if cluster:
        env |= {key: str(value) for key, value in (operator.env_vars or {}).items()}
        command: list[str] = []
    else:
        command = hook._build_spark_submit_command(_APPLICATION)[:-1]
        env |= {key: str(value) for key, value in (hook._env or {}).items()}
        if command[0] == DEFAULT_SPARK_BINARY:
            # Neither the operator nor the connection names one: take the Spark of the stream's environment, whatever a
            # PATH or a SPARK_HOME on this worker says.
            runs_in = environment_of(spark)
            command[0] = runs_in.submit
            env.setdefault("SPARK_HOME", str(runs_in.home))
        elif spark.python is not None:
            raise ConfigError(
                f"the connection's spark-submit is {command[0]}, and the stream's file names {spark.python}",
                expected="one of them: each names the Spark of the stream",
                where=f"connection {operator._conn_id} of stream {spec.name}",
                next_step="remove `spark-binary` from the connection, or `spark.python` from the file",
            )
    return Submission(
        spec=replace(
            spec,
            args=(*spec.args, *map(str, operator.application_args or ())),
            spark=spark,
        ),
        command=command,
        env=env,
        hook=hook,
    )


def deploy_mode(operator: SparkSubmitOperator, spec: StreamSpec) -> DeployMode:
    """Deploy mode of the driver: from the operator, else its connection, else the stream's file.

    Raises ConfigError for a connection that Airflow does not know.
    """
    said = operator._deploy_mode
    if said is None:
        try:
            said = Connection.get(operator._conn_id).extra_dejson.get("deploy-mode")
        except AirflowNotFoundException as error:
            raise ConfigError(
                f"Airflow knows no connection {operator._conn_id!r}",
                expected="a Spark connection of that id",
                where=f"stream {spec.name}",
                next_step=f"define it: `airflow connections add {operator._conn_id} --conn-type spark …`",
            ) from error
    return DeployMode(said) if said in list(DeployMode) else spec.spark.deploy_mode


def own_connection(stream: str) -> str:
    """The id of the connection that a stream has to itself, unless it names another."""
    return f"streamwarden_{stream}"


def _hook(operator: SparkSubmitOperator, *, cluster: bool) -> SparkSubmitHook:
    """The provider's hook, without what goes into the driver's properties file. Raises ConfigError."""
    hidden = ("conf", "properties_file", "application_args", *(("env_vars",) if cluster else ()))
    given = {name: getattr(operator, name) for name in hidden}
    mode = operator._deploy_mode
    for name in hidden:
        setattr(operator, name, None)
    operator._deploy_mode = "cluster" if cluster else mode
    try:
        return operator._get_hook()
    except (NameError, RuntimeError) as error:  # how the provider fails that cannot import Kubernetes' client
        raise ConfigError(
            f"Airflow's Spark provider cannot speak to Kubernetes: {error}",
            expected="the package apache-airflow-providers-cncf-kubernetes",
            where=f"connection {operator._conn_id}",
            next_step="install it where Airflow's workers run: pip install 'streamwarden[kubernetes]'",
        ) from error
    finally:
        operator._deploy_mode = mode
        for name, value in given.items():
            setattr(operator, name, value)


def _read_properties(path: Path) -> dict[str, str]:
    """Spark's properties file: `key value` or `key=value` a line, `#` starts a comment. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", where=f"properties_file {path}", next_step="correct the parameter or the file"
        ) from error
    properties: dict[str, str] = {}
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line.strip())
        if match is not None:
            properties[match["key"]] = match["value"]
    return properties
