"""What SparkSubmitOperator's parameters and connection mean for a driver: spec, spark-submit command, environment.

The command is built by the provider's own hook (`_build_spark_submit_command` is private: the provider is pinned).
Settings go into the spec and from there into the driver's properties file, never into the process's arguments, where
everybody on the host could read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY
from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)

from streamwarden.adapters.spark_home import spark_home
from streamwarden.airflow.connections import exported
from streamwarden.errors import ConfigError
from streamwarden.stream import StreamSpec

if TYPE_CHECKING:
    from streamwarden.airflow.operators import StreamOperator

_APPLICATION: Final = "the-runner"
_PROPERTY: Final = re.compile(r"(?P<key>[^\s=:#!][^\s=:]*)\s*[=:\s]\s*(?P<value>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything that `Fleet.start` needs."""

    spec: StreamSpec
    command: Sequence[str]
    env: Mapping[str, str]


def submission(operator: StreamOperator, spec: StreamSpec, context: Any) -> Submission:
    """Merge the operator's parameters over `spec`, and give the driver the stream's connections.

    Raises ConfigError for what a detached driver cannot do, and for a connection that Airflow does not know.
    """
    conf = {str(key): str(value) for key, value in (operator.conf or {}).items()}
    if operator._openlineage_inject_parent_job_info:
        conf = inject_parent_job_information_into_spark_properties(conf, context)
    if operator._openlineage_inject_transport_info:
        conf = inject_transport_information_into_spark_properties(conf, context)
    properties = _read_properties(Path(operator.properties_file)) if operator.properties_file else {}

    given = operator.conf, operator.properties_file, operator.application_args
    operator.conf, operator.properties_file, operator.application_args = None, None, None
    try:
        hook = operator._get_hook()
    finally:
        operator.conf, operator.properties_file, operator.application_args = given
    connection = hook._connection
    if connection["deploy_mode"] == "cluster":
        raise ConfigError(
            "deploy mode cluster",
            expected="client: the driver is supervised on the host that launched it",
            where=f"connection {operator._conn_id} of stream {spec.name}",
            next_step="set deploy-mode to client",
        )
    command = hook._build_spark_submit_command(_APPLICATION)[:-1]
    env = exported(spec.connections) | {key: str(value) for key, value in (hook._env or {}).items()}
    if command[0] == DEFAULT_SPARK_BINARY:
        # Neither the operator nor the connection names one: take the Spark that is installed with this package,
        # whatever a PATH or a SPARK_HOME on this worker says.
        command[0] = str(spark_home() / "bin" / DEFAULT_SPARK_BINARY)
        env.setdefault("SPARK_HOME", str(spark_home()))
    return Submission(
        spec=replace(
            spec,
            args=(*spec.args, *map(str, operator.application_args or ())),
            spark=replace(spec.spark, master=connection["master"], conf={**spec.spark.conf, **properties, **conf}),
        ),
        command=command,
        env=env,
    )


def _read_properties(path: Path) -> dict[str, str]:
    """Spark's properties file: `key value` or `key=value` a line, `#` starts a comment. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", where=f"properties_file {path}", next_step="correct the parameter or the file"
        ) from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line.strip())
        if match is not None:
            found[match["key"]] = match["value"]
    return found
