"""The query of a stream under Spark alone: no runner, no listener, no lease, no store.

Argument: a folder with `spec.json`. Appends Spark's own reports to `reports.jsonl` there, one a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.sinks import start_query

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    spec = spec_from_dict(json.loads((folder / "spec.json").read_text()))
    spark = SparkSession.builder.getOrCreate()
    query = start_query(load_build(Path(spec.job))(spark, spec), spec)
    written = -1
    with (folder / "reports.jsonl").open("a") as reports:
        while not query.awaitTermination(1):
            fresh = [report for report in query.recentProgress if report.batchId > written]
            reports.writelines(f"{report.json}\n" for report in fresh)
            reports.flush()
            written = max([written, *(report.batchId for report in fresh)])
