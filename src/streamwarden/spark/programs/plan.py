"""The program for `streamwarden lint --plan`: builds a job's query and writes its plan.

Argument: a folder with `spec.json`; it writes `plan.txt`, the analyzed logical plan, or `problem.txt`, why there is
none. The job's `build` is called; the query that it returns is not started.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.internals.plans import analyzed
from streamwarden.spark.internals.readers_writers import frame_of


def main(folder: Path) -> None:
    """Build, analyze, write."""
    spec = spec_from_dict(json.loads((folder / "spec.json").read_text(encoding="utf-8")))
    spark = SparkSession.builder.getOrCreate()
    try:
        built: Any = load_build(Path(spec.job))(spark, spec)
        text = analyzed_plan(built)
    except Exception as error:  # whatever the job or the analyzer raises is what the person needs to see
        (folder / "problem.txt").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        return
    (folder / "plan.txt").write_text(text, encoding="utf-8")


def analyzed_plan(built: Any) -> str:
    """The analyzed logical plan of what `build` returned, as Spark prints it. Raises TypeError if that is no query."""
    frame = frame_of(built)
    if not isinstance(frame, DataFrame):
        raise TypeError(f"build() returned {type(built).__name__}")
    return str(analyzed(frame).toString())
