"""Tries a new version of a job on forks of its stream, which is not touched: gathers what `lifecycle.upgrades` judges.

1. The stream is forked twice: `batches` batches before its newest committed one, and at the newest one.
2. From the first fork one twin executes these batches with the old job, and another one with the new job, under the
   offsets and the watermarks that the second fork has. In a folder of its own the new job also begins anew, which shows
   the form of its state.
3. Their outputs are compared. If they differ, a second twin of the old job shows in which columns two runs of one job
   differ anyway.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from streamwarden.adapters.storage.files import checkpoint_of, open_path, output_of
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.checkpoint.formats.logs import commit
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.driver_folder import OUTSIDE, read_lines
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import why_not
from streamwarden.lifecycle.settings import real_time_format
from streamwarden.lifecycle.upgrades.changes import fixed_settings, state_changes
from streamwarden.lifecycle.upgrades.preflight import OutputDifference, Preflight, Refused
from streamwarden.services.forks.files import remove_folder
from streamwarden.services.forks.forks import drop_output, fork
from streamwarden.services.forks.gathering import survey
from streamwarden.services.forks.spec import forked_spec, run_name
from streamwarden.services.forks.working_folder import WORK, in_working_folder
from streamwarden.services.twins import making
from streamwarden.services.twins.comparing import unstable_columns
from streamwarden.services.twins.keys import find_key
from streamwarden.services.twins.plan_replay import batches_of
from streamwarden.services.twins.running import LOG, Execution, Twin, Unexecuted, attempt, execute
from streamwarden.services.twins.third_witness import NotComparable, rows_of
from streamwarden.services.upgrades.differences import difference, types_of
from streamwarden.services.upgrades.proposal import Proposal
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

BATCHES: Final = 5
"""Batches that both versions execute, if nothing else is asked for. A checkpoint keeps a hundred."""

WITHIN: Final = 1800.0
"""Seconds for the batches of one version."""

_FRESH: Final = "anew"
"""The folder in which the new version begins anew."""

_OLD, _NEW, _OLD_AGAIN = 1, 2, 3
"""Numbers of the twins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Forks on which a new version is tried.

    Args:
        fork: of the stream at its newest committed batch; start: another one, before the batches.
        home: the folder of the twins.
        batches: those that are executed.
    """

    fork: Fork
    start: StreamSpec
    home: Path
    batches: Sequence[int]

    def twin(self, number: int, version: StreamSpec) -> Twin:
        """A twin of this version that begins before the batches. Raises as `making.make` does."""
        return making.make(of_version(self.fork.spec, version), self.home, number, rewound=True)

    def output(self, twin: Twin, batches: Sequence[int] = ()) -> Output:
        """What a twin wrote in these batches; in all, if none are named. Raises NotComparable, VerificationError,
        SourceError."""
        assert isinstance(twin.spec.sink, Sink)  # no other stream can be forked
        batches = batches or self.batches
        first, last = batches[0], batches[-1]
        whole = twin.spec.sink.read(twin.spec, {}, committed=last, first=first, deduplicated=True)
        rows = rows_of(twin.spec, whole, batches, first - 1, self.start)
        return replace(rows, columns=tuple(types_of(rows)))


def preflight(proposal: Proposal, into: Path, *, batches: int = BATCHES, within: Seconds = WITHIN) -> Preflight:
    """Try the new version. What was made for it is removed again, except the logs.

    Args:
        into: a folder, absent or empty: gets `old.log` and `new.log`; of a failure, what was made for it.
        batches: how many of the newest batches both versions execute; fewer, if the checkpoint or the output cannot be
            opened so many batches before.
        within: seconds for the batches of one version.

    Raises CheckpointError, VerificationError, and what a fork and a twin raise, if it cannot be tried.
    """
    began = time.monotonic()
    try:
        trial = forked(proposal.before, into, batches)
        found = _tried(proposal, trial, into, within)
    except BaseException:
        clear(proposal.before, into, whole=False)
        raise
    outside = tuple(dict.fromkeys(f"{line['kind']} {line['what']}" for line in _outside(into)))
    keep_logs(into, {_OLD: "old", _NEW: "new"})
    clear(trial.fork.spec, into, whole=True)
    return replace(found, outside=outside, seconds=round(time.monotonic() - began, 1))


def of_version(fork: StreamSpec, version: StreamSpec) -> StreamSpec:
    """The fork with the job of a version of the stream, and with its settings of Spark and of the state."""
    conf = real_time_format(version) | version.spark.conf
    spark = replace(version.spark, deploy_mode=DeployMode.CLIENT, conf=conf)
    return replace(fork, job=version.job, args=version.args, state=version.state, spark=spark)


def forked(spec: StreamSpec, into: Path, batches: int) -> Trial:
    """Step 1: the forks for a trial of at most so many batches.

    Raises as `fork` does; CheckpointError if the checkpoint keeps no batch to execute again.
    """
    rewind, home = _rewind(spec, batches), into / making.TWIN
    start = making.keep_start(spec, home, rewind)
    made = fork(spec, into=into / making.FORK)  # later: it has every batch that follows
    named = replace(made.spec, name=run_name(spec.name, str(into)))
    made = replace(made, spec=in_working_folder(named, spec, into))
    wanted = batches_of(checkpoint_of(made.spec), start.batch)[:rewind]
    return Trial(fork=made, start=start.spec, home=home, batches=wanted)


def _rewind(spec: StreamSpec, batches: int) -> int:
    """How many batches before the newest one the stream can be opened: at most so many. A sink of files keeps its
    manifest of older batches for some minutes after it was compacted."""
    history = survey(checkpoint_of(spec), output_of(spec))
    newest = max(history.commits, default=0)
    possible = [back for back in range(1, batches + 1) if why_not(history, newest - back) is None]
    if possible:
        return max(possible)
    raise CheckpointError(
        f"{spec.name} cannot be opened before its newest committed batch, {newest}: "
        f"{why_not(history, newest - 1) if newest else 'there is none before it'}",
        expected="a batch to go on from, and one after it that both versions can execute",
        where=spec.checkpoint,
        next_step="wait for the next batch, then try again",
    )


def _tried(proposal: Proposal, trial: Trial, into: Path, within: Seconds) -> Preflight:
    """Steps 2 and 3. The new version is first: if Spark refuses it, the old one need not run."""
    new, fresh = trial.twin(_NEW, proposal.after), into / _FRESH
    done = attempt(new, trial.batches, within=within, fresh=fresh)
    before, anew = read_checkpoint(checkpoint_of(trial.fork.spec)), _report(fresh)
    found = Preflight(
        stream=proposal.before.name,
        job=proposal.after.job,
        batch=trial.batches[-1],
        first=trial.batches[0],
        last=trial.batches[-1],
        operators=tuple(operator.name or "unnamed" for operator in before.operators),
        seen=anew is not None,
        state=() if anew is None else state_changes(before, anew),
        settings=() if anew is None else fixed_settings(before, anew),
    )
    if isinstance(done, Unexecuted):
        return replace(found, refused=_refused(done))
    old = trial.twin(_OLD, proposal.before)
    run = execute(old, trial.batches, within=within)
    output = _difference(proposal, trial, old, new, run, within)
    return replace(found, watermarks=tuple(_watermarks(trial.batches, old, new)), output=output)


def _outside(into: Path) -> Iterator[Mapping[str, Any]]:
    """What the jobs did outside of the folder."""
    return (line for line in read_lines(into / OUTSIDE) if line.get("kind") in ("file", "server", "program"))


def _report(fresh: Path) -> CheckpointReport | None:
    """What the new version wrote down when it began anew; None: it did not get so far."""
    try:
        return read_checkpoint(open_path(str(fresh)))
    except CheckpointError:
        return None


def _refused(done: Unexecuted) -> Refused:
    failure = done.failure
    if failure is None:
        return Refused(batch=done.batch, error_class=None, message=done.error, next_step="correct the job")
    return Refused(
        batch=done.batch,
        error_class=failure.error_class,
        message=failure.message,
        next_step=failure.next_step,
    )


def _watermarks(batches: Collection[int], old: Twin, new: Twin) -> Iterator[str]:
    """Both executed each batch under the stream's own watermark: another one after it is the new job's doing."""
    for batch in batches:
        was, becomes = (commit(checkpoint_of(twin.spec), batch).next_watermark_ms for twin in (old, new))
        if was != becomes:
            yield f"the watermark after batch {batch} is {becomes} ms, in place of {was} ms"


def _difference(
    proposal: Proposal, trial: Trial, old: Twin, new: Twin, run: Execution, within: Seconds
) -> OutputDifference:
    """The outputs, compared."""
    try:
        its, mine = trial.output(old), trial.output(new)
    except NotComparable as error:
        return OutputDifference(old=0, new=0, unproven=str(error))
    key = find_key((), proposal.before.sink.key, run.plan, its)
    found = difference(its, mine, key, records=run.records)
    if not found.rows_differ:
        return found
    again = trial.twin(_OLD_AGAIN, proposal.before)
    execute(again, trial.batches, within=within)
    try:
        left_out = unstable_columns(its, trial.output(again), key, {})
    except VerificationError as error:
        return OutputDifference(old=its.count, new=mine.count, unproven=error.observed)
    return difference(its, mine, key, left_out)


def keep_logs(into: Path, names: Mapping[int, str]) -> None:
    """Move the logs of the twins with these numbers to files of these names."""
    for number, name in names.items():
        log = into / making.TWIN / str(number) / making.FORK / "program" / LOG
        if log.exists():
            log.replace(into / f"{name}.log")


def clear(spec: StreamSpec, into: Path, *, whole: bool) -> None:
    """Remove the forks: their tables, topics and folders; unless `whole`, the outputs and the logs of the twins stay.

    Args:
        spec: the stream, or its fork.
    """
    making.clear(spec, into / making.TWIN, whole=whole)
    drop_output(forked_spec(spec, Places.under(str(into / making.FORK))))
    for name in (making.FORK, _FRESH, WORK):
        remove_folder(into / name, below=into)
