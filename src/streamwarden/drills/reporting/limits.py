"""What a drill cannot prove by its nature, as far as it concerns this drill. Pure.

The lists are those of `docs/how-to/twin.md` and `docs/explanation/verification.md`; a test compares them. What a drill
found out about its own limits (`not exercised`, `not compared`, `not checked`) is in the first sentence of its report.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden.drills.faults.base import Course
from streamwarden.drills.records.sections import OracleKind
from streamwarden.drills.state import RunState
from streamwarden.verification.reconciliation import Reconciliation


@dataclass(frozen=True, slots=True)
class Limit:
    """Args:
    item: how the list in the documentation begins; said: in the report. concerns: whether it is one of this drill.
    """

    item: str
    said: str
    concerns: Callable[[RunState], bool]


def limits_of(state: RunState) -> Iterator[str]:
    """The limits of a drill that compared something."""
    if state.reconciliation is None and state.audit is None:
        return
    yield from (limit.said for limit in LIMITS if limit.concerns(state))


def _on_fork(state: RunState) -> bool:
    return state.fork is not None and state.live is None


def _restored(state: RunState) -> bool:
    return state.drill.course is Course.RESTORED


def _by_twin(state: RunState) -> bool:
    return _on_fork(state) and state.twin is not None and not _restored(state)


def _by_twin_alone(state: RunState) -> bool:
    return _by_twin(state) and state.twin is not None and state.twin.alone


def _by_oracle(state: RunState) -> bool:
    return _on_fork(state) and state.fork is not None and OracleKind.JOB in state.fork.oracles


def _from_nothing(state: RunState) -> bool:
    return state.fork is not None and state.fork.batch is None


def _reads(what: str) -> Callable[[RunState], bool]:
    return lambda state: _on_fork(state) and state.fork is not None and state.fork.what == what


def _watermarks(state: RunState) -> int:
    return state.twin.watermarks if state.twin is not None else 0


def _of_script(state: RunState) -> bool:
    return state.twin is not None and "queries" in state.twin.outcome.notes


def _repeated(state: RunState) -> bool:
    counts: Reconciliation | None = state.reconciliation
    return counts is not None and bool(counts.repeated)


LIMITS: Final = (
    Limit(
        "That the job is right",
        "that the job is right: an error that each run makes is in the fork and in its twin",
        _by_twin_alone,
    ),
    Limit(
        "What each restart loses",
        "what the job loses in each restart, in batches that are not compared with the stream's own rows: fork and "
        "twin both begin with a restart",
        lambda state: _by_twin_alone(state) and not _from_nothing(state),
    ),
    Limit(
        "What a start from nothing loses",
        "what the job loses only at its very first start: the twin begins from nothing, too",
        lambda state: _by_twin_alone(state) and _from_nothing(state),
    ),
    Limit(
        "What the compared batches do not touch",
        "state of keys that the compared batches neither read nor wrote, the output before them and after them, and "
        "that the job is right: the fork of the savepoint executed the stream's own batches with the stream's "
        "watermarks and times",
        _restored,
    ),
    Limit(
        "A watermark that is too high",
        "that no watermark is too high: the query has several, of which a driver knows more the longer it runs",
        lambda state: _by_twin_alone(state) and _watermarks(state) > 1,
    ),
    Limit(
        "A last batch without data",
        "that the fork left out no last batch without data: the twin executes the batches that there are",
        lambda state: _by_twin_alone(state) and _watermarks(state) > 0,
    ),
    Limit(
        "What the drill does not see",
        "what the job reads or keeps where the drill does not look: short connections of Python's workers, "
        "those of libraries in C and of Java code, and files outside of the data folder and the project",
        _on_fork,
    ),
    Limit(
        "What a job does only where it recognizes its twin",
        "what a job does only where it recognizes its twin, by its folders or its processes",
        _by_twin,
    ),
    Limit(
        "What a function writes without Spark",
        "what the function of foreachBatch writes elsewhere than to the output that is compared",
        lambda state: state.twin is not None and state.twin.reads_again and not _of_script(state),
    ),
    Limit(
        "For a script, the drill does not check that the batches' times agree",
        "that the times of the batches agree with the drivers' lives, which is not checked of a script",
        _of_script,
    ),
    Limit(
        "nothing defines the order",
        "that the partitions were read in turn: a run that reads one to its end first makes the rows of others late",
        lambda state: _by_oracle(state) and _reads("record")(state),
    ),
    Limit(
        "times may be shifted",
        "that the times of the batches are right to the second: within the life of a driver they may be shifted",
        _by_oracle,
    ),
    Limit(
        "a change that keeps the modification time",
        "that no input file was changed after it was read, if the change kept its modification time",
        _reads("file"),
    ),
    Limit(
        "a task that is retried",
        "that each repeated record comes from a batch that ran again: a task that is retried repeats records, too",
        _repeated,
    ),
    Limit(
        "an oracle that asks",
        "that the job's oracle did not read the output where nothing keeps it away: in a database or a broker, and "
        "on a kernel without Landlock with a library that opens files without Python",
        _by_oracle,
    ),
    Limit(
        "A run that rewrites",
        "that the job did not rewrite its input, the store or the journal",
        _on_fork,
    ),
    Limit(
        "the books of a job that computes a wrong sum balance",
        "that the job is right: an audit trusts its code and the checkpoint's record of watermarks and files",
        lambda state: state.audit is not None,
    ),
)
