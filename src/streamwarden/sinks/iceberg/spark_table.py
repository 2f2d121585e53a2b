"""The stream's table in the session of a driver: its catalog, and the table itself if it is not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.table import table_of
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.sinks.merging import quoted
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

CATALOG: Final = "streamwarden_iceberg"
"""The name of the catalog in the driver's session. Its warehouse is the folder in which the table's folder is."""

_SETTING: Final = f"spark.sql.catalog.{CATALOG}"

_STAGES: Final = ("write.wap.enabled", "true")
"""Property of a table into which a session with `spark.wap.id` writes snapshots beside the history."""


def ensure_table(spark: SparkSession, spec: StreamSpec, schema: StructType) -> str:
    """Set the catalog of the table, and make the table with the columns of `schema` if it is not there.
    Returns its name in SQL."""
    folder, _, name = str(spec.sink.path).rpartition("/")
    conf = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": to_hadoop(folder),
        ".cache-enabled": "false",  # what another program commits is seen at once
    }
    for suffix, value in conf.items():
        spark.conf.set(f"{_SETTING}{suffix}", value)
    table, known = f"{CATALOG}.{quoted(name)}", table_of(spec)
    if known is None:
        spark.createDataFrame([], schema).writeTo(table).using("iceberg").tableProperty(*_STAGES).create()
    elif dict([_STAGES]).items() - known.document.get("properties", {}).items():
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_STAGES[0]}' = '{_STAGES[1]}')")
    return table


def publish(spark: SparkSession, spec: StreamSpec, snapshot: int) -> None:
    """Publish a staged snapshot: it enters the table's history. Iceberg refuses it if the history has one of the same
    name, even one that was committed after this call began."""
    name = quoted(str(spec.sink.path).rpartition("/")[2]).replace("'", "\\'")
    spark.sql(f"CALL {CATALOG}.system.cherrypick_snapshot('{name}', {snapshot})")
