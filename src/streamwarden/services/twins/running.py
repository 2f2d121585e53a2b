"""Runs a twin: one Spark that executes the batches of a finished run, one by one."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters import processes
from streamwarden.errors import VerificationError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitRecord
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE
from streamwarden.services.fleet.launching.one_off_spark import here, run_program
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

PLAN: Final = "plan.txt"
LOG: Final = "twin.log"
TASK: Final = "twin.json"
DONE: Final = "done.json"
PROBLEM: Final = "problem.json"
READS_AGAIN: Final = "reads_again"
"""In `DONE`: see `TwinReport.reads_again`."""
FRESH: Final = "fresh"
"""In `TASK`: a folder in which the query is begun anew, so that the form of its state is seen; null: it is not."""
FOLLOWS: Final = "follows"
"""In `TASK`: the run goes on, and its batches are executed from the one that is named on."""
UPTO: Final = "upto.json"
"""Written while a twin follows: `batch`, the last one that it executes."""
GROUPS: Final = "groups"
"""In `TASK`: batch of the twin -> the first and the last batch of the run whose input it has; null: its own."""
REPORTS: Final = "reports"
"""In `DONE`: batch -> the fields of its `BatchReport`."""
FAILURE: Final = "failure"
"""In `PROBLEM`: the record of the failure, as a driver would leave it."""

_END_WITHIN: Final = 30.0
"""Seconds from SIGKILL until a process must have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A fork that executes the batches of `run` again.

    Args:
        spec: its own checkpoint, input and output; places: where these are, on this host.
        run: the fork whose batches are executed.
        folder: of the program: its log, its settings and its result.
    """

    spec: StreamSpec
    places: Places
    run: StreamSpec
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What Spark reports of a batch. `seconds`: of the whole batch; `state`: bytes of memory of all operators."""

    rows: int
    seconds: float
    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The batches that a twin executed.

    Args:
        seconds: batch -> how long it took, from writing its plan to its commit.
        records: input records of all batches, as Spark counts them.
        plan: the analyzed logical plan of the job's query, as Spark prints it.
        reads_again: see `TwinReport`.
        reports: batch -> Spark's report; none of a script.
    """

    seconds: dict[int, float]
    records: int
    plan: str
    reads_again: bool = False
    reports: Mapping[int, BatchReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexecuted:
    """A batch that a twin could not execute.

    Args:
        batch: None: the job could not be started.
        error: what Spark or the job raised, with its class.
        failure: the record that a driver would have left; None: of a script.
    """

    batch: int | None
    error: str
    failure: ExitRecord | None = None


def execute(
    twin: Twin, batches: Sequence[int], *, within: Seconds, groups: Mapping[int, tuple[int, int]] | None = None
) -> Execution:
    """Execute `batches`, in this order, as `attempt` does. Raises VerificationError if one could not be executed."""
    done = attempt(twin, batches, within=within, groups=groups)
    if isinstance(done, Execution):
        return done
    what = "the job could not be started" if done.batch is None else f"batch {done.batch} could not be executed"
    raise _none(twin, f"{what}: {done.error}")


def attempt(
    twin: Twin,
    batches: Sequence[int],
    *,
    within: Seconds,
    fresh: Path | None = None,
    follows: bool = False,
    groups: Mapping[int, tuple[int, int]] | None = None,
) -> Execution | Unexecuted:
    """Execute `batches`, in this order, or as many of them as the job can.

    Args:
        within: seconds for all of them, with the start of Spark.
        follows: go on with the batches that `twin.run`, which goes on, commits, until the one in `UPTO`.
        groups: see `GROUPS`.
        fresh: a folder, absent or empty: see `FRESH`. That the query cannot be begun anew is no failure.

    Raises:
        VerificationError: Spark ended and said nothing, or not in time.
        ProcessError: there is no usable Java, or the jars that the stream needs are not on this host.
        ConfigError: a connection, or a variable of `spark.env`, is missing.
    """
    folder = twin.folder
    disk.private_folder(folder, below=folder.parent)
    task = {
        "run": twin.run.checkpoint,
        "connection": twin.run.storage.connection,
        "source": twin.run.source.path,
        "places": asdict(twin.places),
        "batches": list(batches),
        FOLLOWS: follows,
        GROUPS: None if groups is None else {str(batch): list(group) for batch, group in groups.items()},
        FRESH: None if fresh is None else str(fresh),
    }
    files.write_document(folder / TASK, task)
    try:
        status = run_program("twin", here(twin.spec), folder, reads=twin.run, within=within)
    except subprocess.TimeoutExpired as error:
        raise _none(twin, f"its batches took longer than {within:.0f} s") from error
    done, problem = files.read_document(folder / DONE), files.read_document(folder / PROBLEM)
    if done is not None:
        seconds = {int(batch): float(took) for batch, took in done["seconds"].items()}
        plan = (folder / PLAN).read_text(encoding="utf-8")
        reports = {int(batch): BatchReport(**report) for batch, report in done.get(REPORTS, {}).items()}
        return Execution(
            seconds=seconds,
            records=done["records"],
            plan=plan,
            reads_again=done.get(READS_AGAIN, False),
            reports=reports,
        )
    if problem is None:
        raise _none(twin, f"Spark ended with status {status}")
    record = problem.get(FAILURE)
    failure = None if record is None else ExitRecord.from_document(record)
    return Unexecuted(batch=problem["batch"], error=problem["error"], failure=failure)


def end_left(folder: Path) -> None:
    """End the processes of a twin whose drill was killed. Raises VerificationError if one does not end."""
    living = processes.with_variable(FOLDER_VARIABLE, str(folder))
    for process in living:
        with contextlib.suppress(PermissionError):
            processes.signal_one(process, signal.SIGKILL)
    deadline = time.monotonic() + _END_WITHIN
    for process in living:
        if not processes.await_end(process, max(0.0, deadline - time.monotonic())):
            raise VerificationError(
                f"the process {process.pid} of a twin is still alive {_END_WITHIN:.0f} s after SIGKILL",
                expected="a process that ends",
                where=str(folder),
                next_step="check whether it hangs in the kernel (`ps`: state D), then heal the drill again",
            )


def _none(twin: Twin, observed: str) -> VerificationError:
    return VerificationError(
        f"the twin gives no expectation: {observed}",
        expected="a job that executes the same batches again",
        where=str(twin.folder / LOG),
        next_step="read the log; if the job cannot run twice, write an oracle and set `verification.oracle: job`",
    )
