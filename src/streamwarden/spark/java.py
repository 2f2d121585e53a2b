"""Lets a job call Java or Scala code of its own, such as a stateful processor of `spark.maven`."""

from pyspark.sql import DataFrame

from streamwarden.errors import JobError
from streamwarden.spark.internals.classic import through_static_method
from streamwarden.spark.internals.jvm import loaded_class

__all__ = ["through_java"]


def through_java(frame: DataFrame, method: str, *arguments: int | bool | float | str) -> DataFrame:
    """What a static Java method makes of the frame.

    Args:
        method: `PACKAGE.CLASS.METHOD`. It takes a `Dataset<Row>` and the arguments, and returns a `Dataset<Row>`.

    Raises JobError if the driver's JVM has no such class.
    """
    owner = method.rpartition(".")[0]
    try:
        loaded_class(frame.sparkSession, owner)
    except LookupError as error:
        raise JobError(
            f"the driver's JVM has no class {owner}",
            expected="a class of Spark, or of a jar of the stream",
            where=method,
            next_step="name the jar in `spark.jars` of the stream's spark.conf, or its Maven project in `spark.maven`",
        ) from error
    return through_static_method(frame, method, arguments)
