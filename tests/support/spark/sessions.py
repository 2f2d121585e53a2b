"""Streams that run to their end in the tests' own Spark session: it is warm, where a driver has just started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import Progress, parse_progress
from streamwarden.stream.spec import StreamSpec

_STATE = "spark.sql.streaming."


def run_in(spark: Any, spec: StreamSpec) -> list[Progress]:
    """Run a bounded stream to its end, with its own settings of state, and keep its malformed rows aside; its progress
    reports."""
    from streamwarden.spark.driver.jobs import load_build
    from streamwarden.spark.driver.quarantine import Quarantines
    from streamwarden.spark.sinks import batch_writer, start_query

    for key, value in spark_conf(spec).items():
        if key.startswith(_STATE):
            spark.conf.set(key, value)
    query = start_query(load_build(Path(spec.job))(spark, spec), spec, batch_writer(spec, 1))
    query.awaitTermination()
    reports = [parse_progress(report.json) for report in query.recentProgress]
    quarantines = Quarantines(spec)
    for report in reports:
        quarantines.seen(report)
    quarantines.start(spark)
    quarantines.close()
    return reports
