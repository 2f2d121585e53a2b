"""Check that a custom state store provider is on the classpath and implements the interface."""

from typing import Any, Final

from streamwarden.errors import ConfigError
from streamwarden.spark.internals.jvm import loaded_class
from streamwarden.stream.spec import Backend, StreamSpec

INTERFACE: Final = "org.apache.spark.sql.execution.streaming.state.StateStoreProvider"


def require_provider(spark: Any, spec: StreamSpec) -> None:
    """Raises ConfigError, before the query starts, if the stream names a provider that the driver cannot load.

    Left to Spark it shows in the first batch, as a failed task, behind retries.
    """
    name = spec.state.backend
    if isinstance(name, Backend):
        return
    try:
        provider = loaded_class(spark, name)
    except LookupError as error:
        raise ConfigError(
            f"state.backend: {name} cannot be loaded: {error}",
            expected="'rocksdb', 'hdfs', or the full name of a class on the driver's classpath",
            where=spec.file or spec.name,
            next_step="correct the name, or add its jar in the stream's file: spark: {conf: {spark.jars: …}}",
        ) from error
    if not loaded_class(spark, INTERFACE).isAssignableFrom(provider):
        raise ConfigError(
            f"state.backend: {name} extends {provider.getSuperclass().getName()}; it is not a StateStoreProvider",
            expected=f"a class that implements {INTERFACE}",
            where=spec.file or spec.name,
            next_step="name the provider's class",
        )
