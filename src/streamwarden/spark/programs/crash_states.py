"""The program for a crash matrix: a run without a crash, or the restarts from recorded states.

Argument: a folder with the stream's spec and `task.json` (see `services.crash_matrix.matrix`). It appends a line to
`outcomes.jsonl` for each state as soon as the state is verified.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.drills.crash_states import CrashState, Operation
from streamwarden.drills.records.codec import decode, encode
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.job_files import has_build
from streamwarden.services.crash_matrix.crash_layout import BATCHES, OUTCOMES, TASK, Record
from streamwarden.services.crash_matrix.executing import Execution
from streamwarden.services.crash_matrix.judge import judge
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.internals.jvm import is_stopped, stop_state_stores
from streamwarden.spark.scripts.fork_fence import fence_fork
from streamwarden.spark.scripts.taken_query import TakenQuery
from streamwarden.spark.sinks import batch_writer, start_query
from streamwarden.stream.spec import StreamSpec

_ENDS_WITHIN: Final = 120
"""Seconds after which a restart that neither commits nor fails is stopped."""


def main(folder: Path) -> int:
    """Do the task; returns the exit code. Raises whatever the run without a crash raises, and if Spark ends."""
    task, document = files.read_document(folder / TASK), files.read_spec(folder)
    assert task is not None, "the caller wrote it"
    assert document is not None, "the caller wrote it"
    spec = spec_from_dict(document)
    spark = SparkSession.builder.getOrCreate()
    build = _builder(spark, spec)
    if not task["states"]:
        _run(build(), spec, {"availableNow": True}, within=None)
        return 0
    with judge(task["python"], folder) as asked:
        execution = Execution(
            spec=spec,
            places=Places(**task["places"]),
            record=_record(task),
            scratch=folder / "states",
            judge=asked,
            start=partial(_start, spark, spec, build),
        )
        execution.keep_sink()
        for state in task["states"]:
            outcome = execution.outcome(decode(CrashState, state))
            require_alive(spark)
            files.append_line(folder / OUTCOMES, encode(outcome))
    return 0


def _record(task: Mapping[str, Any]) -> Record:
    operations = tuple(decode(Operation, operation) for operation in task["operations"])
    return Record(operations, Path(task["contents"]))


def require_alive(spark: Any) -> None:
    """Raises if Spark has ended: then an error of a restart is no answer to its state, and neither are the later ones.

    If the JVM is gone, py4j raises a ConnectionRefusedError or a Py4JError.
    """
    if is_stopped(spark):
        raise RuntimeError("Spark has stopped before each state was verified")


def _builder(spark: Any, spec: StreamSpec) -> Callable[[], Any]:
    """Builds the job, or takes the query of a script, with each call anew."""
    job = Path(spec.job)
    if has_build(job):
        fence_fork(spec)
        return lambda: load_build(job)(spark, spec)
    query = TakenQuery(spec, 2 * BATCHES - 1)  # so that twelve files or more make twelve batches or more
    query.watch()
    return query.writer


def _start(spark: Any, spec: StreamSpec, build: Callable[[], Any]) -> Callable[[], None]:
    """Build the job; returns what executes its one planned batch, or plans one."""
    built = build()

    def run() -> None:
        try:
            _run(built, spec, {"once": True}, within=_ENDS_WITHIN)
        finally:
            # Otherwise the stores of each state stay in memory, and maintenance writes into the files of the next one.
            stop_state_stores(spark)

    return run


def _run(built: Any, spec: StreamSpec, trigger: Mapping[str, Any], *, within: int | None) -> None:
    query = start_query(built, spec, batch_writer(spec, token=1), trigger=trigger)
    if within is None:
        query.awaitTermination()
    elif not query.awaitTermination(within):
        query.stop()
        raise TimeoutError(f"the restart neither committed nor failed in {within} s")
