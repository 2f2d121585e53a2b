"""Writes tests/data/orc: a row with an instant and a wall clock, by the Spark that is installed, in UTC.

`TZ=UTC .venv/bin/python tests/data/make_orc.py`; the file is named after the version of Spark.
"""

import shutil
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

TARGET = Path(__file__).parent / "orc" / f"spark-{pyspark.__version__}.orc"


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    noon = "'2013-01-01 12:00:00.000004'"
    with tempfile.TemporaryDirectory() as folder:
        frame = spark.sql(f"SELECT 1L AS id, TIMESTAMP {noon} AS at, TIMESTAMP_NTZ {noon} AS wall")
        frame.coalesce(1).write.mode("overwrite").orc(folder)
        (written,) = Path(folder).glob("*.orc")
        shutil.copy(written, TARGET)
    spark.stop()


if __name__ == "__main__":
    main()
