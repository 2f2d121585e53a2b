"""PySpark's own classes of frames and columns, which since 4.0 are apart from those of Spark Connect."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from streamwarden.spark.internals.versions import RUNNING, class_of

_MODULES: Final = "pyspark.sql.classic" if RUNNING >= (4, 0) else "pyspark.sql"
_Column: Final[Any] = import_module(f"{_MODULES}.column").Column
_DataFrame: Final[Any] = import_module(f"{_MODULES}.dataframe").DataFrame


def frame_around(dataset: Any, session: SparkSession) -> DataFrame:
    """The frame of a dataset of the JVM."""
    frame: DataFrame = _DataFrame(dataset, session)
    return frame


def through_static_method(frame: DataFrame, method: str, arguments: Sequence[Any]) -> DataFrame:
    """What a static method of a Java class, `PACKAGE.CLASS.METHOD`, makes of the frame's dataset."""
    found: Any = frame.sparkSession._jvm
    for part in method.split("."):
        found = getattr(found, part)
    return frame_around(found(frame._jdf, *arguments), frame.sparkSession)


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """The rows of a plan."""
    jvm: Any = session._jvm
    return frame_around(class_of(jvm, "Dataset").ofRows(session._jsparkSession, plan), session)


def column_of(session: SparkSession, expression: Any) -> Column:
    """An expression over the rows of its plan."""
    jvm: Any = session._jvm
    sql = jvm.org.apache.spark.sql
    made = sql.classic.ExpressionUtils.column(expression) if RUNNING >= (4, 0) else sql.Column(expression)
    column: Column = _Column(made)
    return column
