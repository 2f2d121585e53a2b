"""Executes the newest batches of a stream under the present settings and under the advised ones, on forks.

The stream is not touched. It is forked before these batches, and four twins execute them one after the other: present,
advised, advised, present. Each batch has the offsets and the watermark that it had in the stream. For a longer trigger
the twins of the advised settings execute several batches as one, as that trigger would have planned them.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.services.twins.comparing import unstable_columns
from streamwarden.services.twins.keys import find_key
from streamwarden.services.twins.running import BatchReport, Twin, Unexecuted, attempt
from streamwarden.services.twins.running import Execution as Run
from streamwarden.services.twins.third_witness import NotComparable
from streamwarden.services.upgrades.differences import difference
from streamwarden.services.upgrades.preflight import WITHIN, clear, forked, keep_logs
from streamwarden.services.upgrades.preflight import Trial as Forks
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.stream.spec import Backend
from streamwarden.tuning.proposals.trial import Execution, Group, Pair, Trial, groups
from streamwarden.units import Seconds

_PRESENT, _ADVISED, _ADVISED_AGAIN, _PRESENT_AGAIN = 1, 2, 3, 4
"""Numbers of the twins, in the order in which they run."""

_LOGS: Final = {1: "present", 2: "advised", 3: "advised-again", 4: "present-again"}


def try_settings(proposal: Proposal, into: Path, *, batches: int, size: int = 1, within: Seconds = WITHIN) -> Trial:
    """Try the proposal. What was made for it is removed again, except the logs.

    Args:
        into: a folder, absent or empty; gets the logs, and of a failure what was made for the trial.
        batches: how many of the newest batches are executed; fewer, if the stream cannot be opened so long before.
        size: how many of them a longer trigger makes one of.
        within: seconds for the batches of one twin.

    Raises CheckpointError if the advised settings do not execute a batch, or the stream cannot be forked; otherwise as
    a fork and a twin do.
    """
    began = time.monotonic()
    try:
        forks = forked(proposal.before, into, batches)
        plan = groups(forks.batches, size)
        trial = _tried(proposal, forks, plan, within)
    except BaseException:
        clear(proposal.before, into, whole=False)
        raise
    keep_logs(into, _LOGS)
    clear(forks.fork.spec, into, whole=True)
    return Trial(pairs=trial[0], output=trial[1], heaps=_heaps(proposal), seconds=round(time.monotonic() - began, 1))


def _tried(
    proposal: Proposal, forks: Forks, plan: Mapping[int, Group], within: Seconds
) -> tuple[tuple[Pair, ...], OutputDifference]:
    made: dict[int, tuple[Twin, Run]] = {}
    for number in (_PRESENT, _ADVISED, _ADVISED_AGAIN, _PRESENT_AGAIN):
        advised = number in (_ADVISED, _ADVISED_AGAIN)
        twin = forks.twin(number, proposal.after if advised else proposal.before)
        made[number] = twin, _run(proposal, twin, forks.batches, plan if advised else None, within)
    present = [made[number][1].reports for number in (_PRESENT, _PRESENT_AGAIN)]
    advised_runs = [made[number][1].reports for number in (_ADVISED, _ADVISED_AGAIN)]
    pairs = tuple(
        Pair(
            group=(first, last),
            before=_mean([[run[batch] for batch in range(first, last + 1)] for run in present]),
            after=_mean([[run[number]] for run in advised_runs]),
        )
        for number, (first, last) in plan.items()
    )
    return pairs, _compared(proposal, forks, made, tuple(plan))


def _run(
    proposal: Proposal, twin: Twin, batches: Sequence[int], plan: Mapping[int, Group] | None, within: Seconds
) -> Run:
    done = attempt(twin, list(plan or batches), within=within, groups=plan)
    if not isinstance(done, Unexecuted):
        return done
    where = "the query cannot be built" if done.batch is None else f"batch {done.batch} cannot be executed"
    failure = done.failure
    raise CheckpointError(
        f"the settings of {proposal.before.name} cannot be tried: {where}: {done.error}",
        expected="a job that executes its batches again, under the present settings and under the advised ones",
        where=str(twin.folder),
        next_step=failure.next_step if failure is not None and failure.next_step else "read the log there",
    )


def _mean(runs: Sequence[Sequence[BatchReport]]) -> Execution:
    """Both runs of one side, with the input of one pair."""
    return Execution(
        seconds=statistics.fmean(sum(report.seconds for report in run) for run in runs),
        longest=statistics.fmean(max(report.seconds for report in run) for run in runs),
        state=max(report.state for run in runs for report in run),
        rows=sum(report.rows for report in runs[0]),
    )


def _compared(
    proposal: Proposal, forks: Forks, made: Mapping[int, tuple[Twin, Run]], advised: Sequence[int]
) -> OutputDifference:
    """The rows of both, without the columns in which two runs under the present settings differ."""
    (present, run), (again, _) = made[_PRESENT], made[_PRESENT_AGAIN]
    try:
        its, mine = forks.output(present), forks.output(made[_ADVISED][0], advised)
        key = find_key((), proposal.before.sink.key, run.plan, its)
        found = difference(its, mine, key, records=run.records)
        if not found.rows_differ:
            return found
        left_out = unstable_columns(its, forks.output(again), key, {})
        return difference(its, mine, key, left_out, records=run.records) if left_out else found
    except NotComparable as error:
        return OutputDifference(old=0, new=0, unproven=str(error))
    except VerificationError as error:
        return OutputDifference(old=0, new=0, unproven=error.observed)


def _heaps(proposal: Proposal) -> tuple[int, int] | None:
    before, after = proposal.before.spark.driver_memory, proposal.after.spark.driver_memory
    on_heap = proposal.before.state.backend is Backend.HDFS
    return (before, after) if on_heap and before != after else None
