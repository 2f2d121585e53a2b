"""The program for a twin: executes the batches of another run, one by one.

Argument: a folder with `twin.json` and the spec (see `services.twins.running`). It writes `plan.txt`, the logical plan
of the job's query, and, when every batch is committed, `done.json`; or else `problem.json`: the batch, and what Spark
or the job raised.

If the task says so, the run goes on, and is followed: each batch is executed when it is committed there, until
`upto.json` names the last one.

The job's `build` is called once, and its query is started once for each batch. Before that it is begun anew in another
folder, if the task names one.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.config.stored_spec import spec_from_dict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.forks.places import Places
from streamwarden.redaction import redacted
from streamwarden.services.twins.plan_replay import FollowingLaying, Laying, MergedLaying, follow
from streamwarden.services.twins.running import (
    DONE,
    FAILURE,
    FOLLOWS,
    FRESH,
    GROUPS,
    PLAN,
    PROBLEM,
    READS_AGAIN,
    REPORTS,
    TASK,
    UPTO,
    BatchReport,
)
from streamwarden.sources.base import GeneratedSource
from streamwarden.spark.driver.failures import chain_of, describe
from streamwarden.spark.driver.jobs import load_build
from streamwarden.spark.driver.outside import watch_outside
from streamwarden.spark.programs.plan import analyzed_plan
from streamwarden.spark.programs.script_twin import ONE_BATCH, ScriptTwin, await_batch
from streamwarden.spark.scripts.fork_fence import fence_fork
from streamwarden.spark.sinks import batch_writer, start_query
from streamwarden.spark.state.fresh import begin_anew
from streamwarden.stream.spec import StreamSpec

_CLOCK: Final = "RateStream"
"""In the description of Spark's rate source. What it makes is input only of a stream that declares it as its source:
others have it beside their input, as a clock."""


def main(folder: Path) -> int:
    """Execute every batch; returns the exit code."""
    task, document = files.read_document(folder / TASK), files.read_spec(folder)
    assert task is not None, "the caller wrote it"
    assert document is not None, "the caller wrote it"
    spec = spec_from_dict(document)
    watch_outside(spec)
    run, places = open_path(task["run"], task["connection"]), Places(**task["places"])
    if spec.fork is not None:
        return _execute_script(folder, ScriptTwin(spec, spec.fork, run, places))
    laying, batches = _plan(folder, task, run, places)
    fence_fork(spec, also=task[FRESH])
    spark = SparkSession.builder.getOrCreate()
    batch, seconds, reports = None, dict[int, float](), dict[int, BatchReport]()
    reads_again = False
    try:
        built = load_build(Path(spec.job))(spark, spec)
        files.write_text(folder / PLAN, analyzed_plan(built))
        if task[FRESH] is not None:
            begin_anew(built, spec, task[FRESH])
        reads_again = not isinstance(built, DataFrame)  # the product's own writers read a batch once
        for batch in batches:
            began = time.monotonic()
            laying.lay(batch)
            reports[batch] = _execute(built, spec, batch)
            seconds[batch] = round(time.monotonic() - began, 3)
    except Exception as error:  # whatever the job or Spark raises is what the person needs to see
        failed = failure(
            *describe(error, spec.job), at=time.time(), cut_batch=None, built=batch is not None, chain=chain_of(error)
        )
        problem = {"batch": batch, "error": f"{type(error).__name__}: {error}", FAILURE: asdict(failed)}
        files.write_document(folder / PROBLEM, redacted(problem))
        return 1
    done = {
        "seconds": seconds,
        "records": sum(report.rows for report in reports.values()),
        READS_AGAIN: reads_again,
        REPORTS: {batch: asdict(report) for batch, report in reports.items()},
    }
    files.write_document(folder / DONE, done)
    return 0


def _plan(folder: Path, task: Mapping[str, Any], run: Location, places: Places) -> tuple[Laying, Iterable[int]]:
    """What lays the plans of the batches, and the batches."""
    if task[GROUPS] is not None:
        groups = {int(batch): (first, last) for batch, (first, last) in task[GROUPS].items()}
        return MergedLaying(run, task["source"], places, groups=groups), task["batches"]
    if not task[FOLLOWS]:
        return Laying(run, task["source"], places), task["batches"]
    source, connection = task["source"], task["connection"]
    folder_of_input = None if source is None else open_path(source, connection).path
    laying = FollowingLaying(run, folder_of_input, places, connection=connection)

    def upto() -> int | None:
        document = files.read_document(folder / UPTO)
        return None if document is None else int(document["batch"])

    return laying, follow(run, task["batches"][0], upto)


def _execute_script(folder: Path, twin: ScriptTwin) -> int:
    began = time.monotonic()
    try:
        twin.execute()
    except Exception as error:  # as above
        problem = {"batch": twin.batch, "error": f"{type(error).__name__}: {error}"}
        files.write_document(folder / PROBLEM, redacted(problem))
        return 1
    files.write_text(folder / PLAN, twin.text())
    seconds = {twin.batch or 0: round(time.monotonic() - began, 3)}
    files.write_document(folder / DONE, {"seconds": seconds, "records": twin.records})
    return 0


def _execute(built: Any, spec: StreamSpec, batch: int) -> BatchReport:
    """Execute the batch whose plan was written; returns what Spark reports of it."""
    query = start_query(built, spec, batch_writer(spec, token=1), trigger=ONE_BATCH)
    await_batch("the query", query, spec.checkpoint, batch)
    generated = isinstance(spec.source, GeneratedSource)
    # Spark 3.5 gives dictionaries, and the classes of later versions are some
    reports = [report for report in query.recentProgress if report["batchId"] == batch]
    sources = [source for report in reports for source in report["sources"]]
    operators = [operator for report in reports[:1] for operator in report["stateOperators"]]
    return BatchReport(
        rows=sum(each["numInputRows"] for each in sources if generated or _CLOCK not in each["description"]),
        seconds=sum(report["durationMs"].get("triggerExecution", 0) for report in reports) / 1000,
        state=sum(operator["memoryUsedBytes"] for operator in operators),
    )
