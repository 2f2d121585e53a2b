"""The program for `streamwarden repartition`: adds a batch with repartitioned state to a copy of a checkpoint.

Argument: a folder with `request.json`, the copy's URI and the number of partitions; it writes `result.json`, or
`refused.json` with what Spark said.
"""

import json
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from streamwarden.spark.internals.exceptions import said
from streamwarden.spark.internals.state.stores import repartition
from streamwarden.spark.state.reader import plainly_named


def main(folder: Path) -> None:
    """Read, rewrite, write."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    spark = SparkSession.builder.getOrCreate()
    with plainly_named(request["checkpoint"]) as checkpoint:
        try:
            repartition(spark, checkpoint, request["partitions"])
        except Exception as error:  # whatever Spark raises is what the person needs to see
            traceback.print_exc()
            (folder / "refused.json").write_text(json.dumps(said(error)), encoding="utf-8")
            return
    (folder / "result.json").write_text("{}", encoding="utf-8")
