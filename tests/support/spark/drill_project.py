"""A project with a stream over real flights and one drill on it, for drills with real Spark drivers."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from streamwarden.drills.faults import FAULTS, Fault
from streamwarden.drills.records.journal import DrillRun
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.command_line import Answer, in_process
from support.spark.drivers import QUICK

REPOSITORY = Path(__file__).parents[3]
JOBS = REPOSITORY / "tests" / "drills" / "jobs"

STREAM = """
name: flights
job: spark_jobs/{job}.py
source: {source}
sink: {sink}
checkpoint: {checkpoint}
state: {state}
spark: {spark}
{more}
"""

LOCAL = json.dumps({"master": "local[2]", "driver_memory": "1 GB", "conf": QUICK})

FAULT = "fault: {{kind: {fault}, attempts: {attempts}, within: 2m{options}}}"

DRILL = """
name: drill
stream: flights
{faults}
fork: {{rewind: {rewind}, batches: {batches}{at}}}
steady_state: {{min_batches: {steady}, within: 5m}}
recovery: {{target: 8m, deadline: 8m}}
verification: {{min_records: {min_records}, oracle: {oracle}}}
"""

TWIN_WITH_FULL = pytest.mark.parametrize("oracle", ["job", pytest.param("auto", marks=pytest.mark.full)])
"""Judges a drill by the job's oracle, and with `--full` by a twin as well. In the first tier test_standard_drills and
test_twin have drills with a twin."""


@contextmanager
def drill_project(
    root: Path,
    *,
    inputs: Path,
    fault: str | None = None,
    faults: str | None = None,
    job: str = "flight_departures",
    rewind: int | str = "all",
    batches: int = 10,
    attempts: int = 2,
    steady: int = 2,
    min_records: int = 100_000,
    source: str = "{{path: {inputs}, format: json, max_files_per_trigger: 4}}",
    sink: str = "{path: output/flights}",
    spark: str = LOCAL,
    oracle: str = "job",
    state: str = "{shuffle_partitions: 1}",
    more: str = "",
    model: str = "flight_departures",
    checkpoint: str = "checkpoints/flights",
    at: str | None = None,
    options: dict[str, str] | None = None,
) -> Iterator[Workspace]:
    """The workspace of such a project in `root`. At the end nothing that it started may still run.

    Args:
        inputs: folder of replayed flights.
        fault: the one fault of the drill; faults: or the lines of its file that name several.
        job: one of spark_jobs/, judged by its oracle, or of tests/drills/jobs/, judged by that of `model`.
        source, sink, spark, state: the stream's, as YAML; more: further lines of the stream's file. Each partition of
            the state takes processor time from each batch: the standard drills have two.
        options: the fault's.
        steady: batches of the steady state, before the first fault and after the last one.
        model: the job of spark_jobs/ that the tests' own job imports.
        oracle: of the verification; a twin adds some 20 s to a drill.
        at: of the fork: where it keeps its checkpoint and its output; None: below the project.
        rewind: of the fork: how many batches before the newest one it starts; "all": from nothing.
    """
    jobs = root / "spark_jobs"
    (jobs / "oracles").mkdir(parents=True)
    catalogue = REPOSITORY / "spark_jobs"
    own = (catalogue / f"{job}.py").is_file()
    shutil.copy(catalogue / f"{model}.py", jobs)
    shutil.copy((catalogue if own else JOBS) / f"{job}.py", jobs)
    shutil.copy(catalogue / "oracles" / f"{job if own else model}.py", jobs / "oracles" / f"{job}.py")
    if fault is not None:
        usual = {"strikes": 1} if fault == "kill_driver" else {}  # each strike costs the start of a driver
        given = "".join(f", {key}: {value}" for key, value in (usual | (options or {})).items())
        faults = FAULT.format(fault=fault, attempts=attempts, options=given)
    for folder, name, text in (
        (
            "streams",
            "flights",
            STREAM.format(
                job=job,
                source=source.format(inputs=inputs),
                sink=sink,
                checkpoint=checkpoint,
                spark=spark,
                state=state,
                more=more,
            ),
        ),
        (
            "drills",
            "drill",
            DRILL.format(
                faults=faults,
                rewind=rewind,
                batches=batches,
                at="" if at is None else f", at: '{at}'",
                min_records=min_records,
                steady=steady,
                oracle=oracle,
            ),
        ),
    ):
        (root / "config" / folder).mkdir(parents=True)
        (root / "config" / folder / f"{name}.yaml").write_text(text)
    with opened(root) as workspace:
        yield workspace


@contextmanager
def opened(root: Path) -> Iterator[Workspace]:
    """The workspace of the project in `root`. At the end nothing that it started may still run."""
    with Workspace.open(project=root, data=root / "var") as workspace:
        yield workspace
    deadline = time.monotonic() + 60  # a supervisor process records its driver's end, then it ends too
    while (left := processes_of(root)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [], f"still running: {left}"


RESTORE = """
name: restore
stream: flights
fault: {kind: restore_savepoint}
recovery: {target: 8m, deadline: 8m}
verification: {min_records: 1000}
"""


def restore_newest_savepoint(workspace: Workspace) -> DrillRun:
    """Run a drill that restores the newest savepoint of the project's stream."""
    (workspace.project / "config/drills/restore.yaml").write_text(RESTORE)
    return run_drill(workspace, "restore")


def run_drill(workspace: Workspace, name: str = "drill", **instead: type[Fault]) -> DrillRun:
    """All steps of the project's drill in this process, with other classes `instead` for some kinds of fault. Only a
    drill without them may run in a thread beside another one."""
    with patch.dict(FAULTS, instead) if instead else nullcontext():
        return workspace.drill_engine().run(name)


def run_and_stop(workspace: Workspace, batches: int, stream: str = "flights") -> StreamSpec:
    """Start the project's stream, and stop it after some batches."""
    spec = workspace.stream(stream)
    workspace.fleet.start(spec, launched_by="test")
    await_commits(Path(spec.checkpoint), batches)
    workspace.fleet.stop(stream, requested_by="test", reason="the test")
    return spec


def audited(workspace: Workspace, stream: str = "flights") -> Answer:
    """An audit of the project's stream: it exits with 0 if the books balance, with 1 if they do not."""
    return in_process(workspace.project, "audit", stream, "--share", "1", "--json")


def await_commits(checkpoint: Path, count: int) -> None:
    """Wait until so many batches are committed."""
    deadline = time.monotonic() + 300
    while len([path for path in checkpoint.glob("commits/*") if path.name.isdigit()]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_of(root: Path) -> list[str]:
    """Command lines of living processes that name this project's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or [])
        if str(root) in command and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            found.append(command[:200])
    return found
