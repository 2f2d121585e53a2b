"""The same query under Spark alone: no runner, no listener, no lease, no store.

Arguments: spec.json, where to report, the input rows after which to stop (`all`: the query ends by itself), and how the
description of the source begins whose rows are counted. Its settings come from the same properties file as the
supervised driver's. Writes Spark's own reports, one a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.sinks import start_query


def read(query: Any, own: str) -> int:
    """Rows that came from the job's own source so far."""
    every = [source for report in query.recentProgress for source in json.loads(report.json)["sources"]]
    return sum(each["numInputRows"] for each in every if each["description"].startswith(own))


if __name__ == "__main__":
    spec = spec_from_dict(json.loads(Path(sys.argv[1]).read_text()))
    spark = SparkSession.builder.getOrCreate()
    query = start_query(load_build(Path(spec.job))(spark, spec), spec)
    if sys.argv[3] == "all":
        query.awaitTermination()
    else:
        while read(query, sys.argv[4]) < int(sys.argv[3]) and not query.awaitTermination(1):
            pass
        query.stop()
    Path(sys.argv[2]).write_text("".join(report.json + "\n" for report in query.recentProgress))
