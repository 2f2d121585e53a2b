"""Reads what was set on PySpark's readers and writers, which no public method returns.

Needs the fields `source`, `extraOptions`, `trigger`, `outputMode`, `partitioningColumns` and `clusteringColumns` of the
JVM's `DataStreamReader`, `DataStreamWriter` and `DataFrameWriter`, `_df` and `_spark` of PySpark's, and the
session's settings of Hadoop.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.lifecycle.location import URL
from streamwarden.spark.internals.fields import declared, field_of
from streamwarden.spark.internals.queries import trigger_of
from streamwarden.spark.internals.versions import RUNNING
from streamwarden.stream.spec import TriggerSpec


def frame_of(built: Any) -> Any:
    """The frame that a DataStreamWriter writes; anything else as it is."""
    return written_frame(built) if isinstance(built, DataStreamWriter) else built


def written_frame(writer: Any) -> DataFrame:
    """The frame of a writer."""
    frame: DataFrame = writer._df
    return frame


def session_of(reader_or_writer: Any) -> SparkSession:
    """The session of a reader or a writer."""
    session: SparkSession = reader_or_writer._spark
    return session


def format_of(reader_or_writer: Any) -> str:
    """The format that was set, or Spark's default one."""
    return setting_of(reader_or_writer, "source")


def options_of(reader_or_writer: Any) -> dict[str, str | None]:
    """The options that were set, with names in lower case."""
    pairs = field_of(_behind(reader_or_writer), "extraOptions").iterator()
    options: dict[str, str | None] = {}
    while pairs.hasNext():
        pair = pairs.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def set_trigger_of(writer: Any) -> TriggerSpec:
    """The trigger of a DataStreamWriter."""
    return trigger_of(field_of(_behind(writer), "trigger"))


def setting_of(reader_or_writer: Any, name: str) -> str:
    """A private field, as text: `outputMode`, `source`, `partitioningColumns`."""
    return str(field_of(_behind(reader_or_writer), name))


def clear_layout(writer: Any) -> None:
    """Take partitioning and clustering from a DataStreamWriter: Spark allows a function of foreachBatch neither."""
    nothing = writer._spark._jvm.scala.Option.empty()
    for name in ("partitioningColumns", "clusteringColumns")[: 2 if RUNNING >= (4, 0) else 1]:
        declared(_behind(writer), name).set(_behind(writer), nothing)


def place_of(session: SparkSession, text: str) -> str:
    """The place that a script names to Spark: the path on this host, or the URL.

    A bare path is in Hadoop's default file system, which on a cluster is as a rule HDFS. Without one, a path stays as
    it is: a relative one is in the driver's working folder.
    """
    if URL.match(text) or local_by_default(session):
        return of_hadoop(text)
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(text)
    return of_hadoop(str(path.getFileSystem(_hadoop(session)).makeQualified(path).toString()))


def local_by_default(session: SparkSession) -> bool:
    """Whether Spark looks up a path without a scheme on this host's disk."""
    return str(_hadoop(session).get("fs.defaultFS")).startswith("file:")


def _hadoop(session: SparkSession) -> Any:
    """Hadoop's settings, as the session has them."""
    return session._jsparkSession.sessionState().newHadoopConf()


def _behind(reader_or_writer: Any) -> Any:
    """The JVM's half."""
    return getattr(reader_or_writer, "_jwrite", None) or reader_or_writer._jreader
