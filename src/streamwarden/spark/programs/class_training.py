"""The program for `streamwarden prepare`: a stream that loads the classes most streams need.

Argument: a folder with `input/`, which the caller fills and removes.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from streamwarden.spark.standby.rehearsal import rehearse


def main(folder: Path) -> None:
    """See `rehearse`."""
    rehearse(SparkSession.builder.getOrCreate(), folder)
