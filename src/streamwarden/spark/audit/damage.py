"""Finds the data files of an output that Spark cannot read."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.sources.audited import load_exactly
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.internals.exceptions import said


def unreadable(audited: Audited) -> dict[str, str]:
    """URI of each such file -> why. They are read in halves: one damaged file of a thousand takes twenty readings."""
    output = audited.request["output"]
    spark = audited.catalyst.spark

    def within(uris: Sequence[str]) -> dict[str, str]:
        reason = _error(spark, output["format"], output["options"], uris) if uris else None
        if reason is None:
            return {}
        if len(uris) == 1:
            return {uris[0]: reason}
        half = len(uris) // 2
        return {**within(uris[:half]), **within(uris[half:])}

    return within(output.get("files", ()))


def problem(uri: str, reason: str) -> str:
    """The finding that a file cannot be read."""
    return f"the data file {file_name(uri)} cannot be read, and its rows are lost: {reason}"


def _error(spark: SparkSession, kind: str, options: dict[str, str], uris: Sequence[str]) -> str | None:
    """Why Spark cannot read all columns of the files as they are; None: it can."""
    try:
        load_exactly(spark.read.format(kind).options(**options), uris).write.format("noop").mode("overwrite").save()
    except Exception as error:  # py4j and PySpark have many ways to say so
        return said(error)
    return None
