"""A state store provider of somebody's own: is it there, and is it one?"""

from __future__ import annotations

from typing import Any, Final

from streamwarden.errors import ConfigError
from streamwarden.stream.spec import Backend, StreamSpec

INTERFACE: Final = "org.apache.spark.sql.execution.streaming.state.StateStoreProvider"


def require_provider(spark: Any, spec: StreamSpec) -> None:
    """Raises ConfigError, before the query starts, if the stream names a provider that the driver cannot load.

    Left to Spark it shows in the first batch, as a failed task, behind retries.
    """
    from py4j.protocol import Py4JJavaError

    name = spec.state.backend
    if isinstance(name, Backend):
        return
    utils = spark._jvm.org.apache.spark.util.Utils
    try:
        found = utils.classForName(name, False, False)
    except Py4JJavaError as error:
        raise ConfigError(
            f"state.backend: {name} cannot be loaded: {error.java_exception}",
            expected="'rocksdb', 'hdfs', or the full name of a class on the driver's classpath",
            where=spec.file or spec.name,
            next_step="correct the name, or add its jar in the stream's file: spark: {conf: {spark.jars: …}}",
        ) from error
    if not utils.classForName(INTERFACE, False, False).isAssignableFrom(found):
        raise ConfigError(
            f"state.backend: {name} is a {found.getSuperclass().getName()}, no state store provider",
            expected=f"a class that implements {INTERFACE}",
            where=spec.file or spec.name,
            next_step="name the provider's class",
        )
