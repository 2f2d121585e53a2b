"""The job: a module with `build(spark, spec)`, or any PySpark script."""

import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamwarden.config.places import for_spark
from streamwarden.errors import JobError, ScriptFailed
from streamwarden.spark.internals.readers_writers import local_by_default
from streamwarden.stream.spec import StreamSpec

Build = Callable[[SparkSession, StreamSpec], DataFrame | DataStreamWriter]


def load_build(job: Path) -> Build:
    """Import the job's module and return its `build`.

    Where a path without a scheme is not on this host's disk for Spark, it gets every folder of the stream as a URI.

    Raises whatever the module raises.
    """
    sys.argv = [str(job)]
    sys.path.insert(0, str(job.parent))
    spec = importlib.util.spec_from_file_location(job.stem, job)
    if spec is None or spec.loader is None:
        raise JobError(
            "the job is not a Python file", expected="a file NAME.py", where=str(job), next_step="rename the file"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[job.stem] = module
    spec.loader.exec_module(module)
    # Functions of the job travel to the workers by value: these need not find its file.
    cloudpickle.register_pickle_by_value(module)
    build: Any = module.build
    return lambda spark, spec: build(spark, spec if local_by_default(spark) else for_spark(spec))


def run_script(job: Path, args: tuple[str, ...]) -> None:
    """Run the script as `spark-submit` would. Raises whatever it raises, but returns on exit status 0."""
    sys.argv = [str(job), *args]
    sys.path.insert(0, str(job.parent))
    try:
        runpy.run_path(str(job), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ScriptFailed(
                f"the script ended with status {end.code}",
                expected="status 0, or a query that goes on",
                where=str(job),
                next_step="read driver.log for what it printed",
            ) from end
