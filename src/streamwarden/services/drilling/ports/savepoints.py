"""The newest savepoint of a stream as a drill opens it, and the stream's own batches that follow it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import join
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS, Damaged
from streamwarden.checkpoint.formats.logs import committed_times
from streamwarden.drills.faults.restore_savepoint import SAVEPOINTS, Replay, SavepointToProve, aborted
from streamwarden.drills.records.sections import VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, DrillError, StreamwardenError, VerificationError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.forks import plan as plans
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.plan import Link
from streamwarden.lifecycle.job_files import files_of
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports import Offer
from streamwarden.services.forks.files import carry_out
from streamwarden.services.forks.gathering import survey_logs
from streamwarden.services.savepoints.forking import FORK
from streamwarden.services.savepoints.saved import Condition, Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.services.twins.comparison import watermarks_in
from streamwarden.services.twins.keys import find_key
from streamwarden.services.twins.making import PROGRAM
from streamwarden.services.twins.running import DONE, PLAN, PROBLEM, READS_AGAIN, Twin, end_left, execute
from streamwarden.services.twins.third_witness import NotComparable, against_stream, judged
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_size
from streamwarden.verification.tolerance import Tolerance

HELD: Final = "stream-logs"
"""The folder, in that of the run, with the stream's logs of the batches that are executed again."""


class StreamSavepoints:
    """Implements `drills.faults.restore_savepoint.Savepoints`.

    Args:
        stream: the production stream's spec by name; raises ConfigError if there is none.
    """

    def __init__(self, archive: DrillArchive, stream: Callable[[str], StreamSpec]) -> None:
        self._archive = archive
        self._stream = stream

    def newest(self, stream: str) -> SavepointToProve:
        for entry in Savepoints.of(self._stream(stream)).entries():
            if entry.condition is Condition.UNREADABLE:
                return SavepointToProve(id=entry.id, batch=None, problem=str(entry.problem))
            if entry.savepoint is not None:
                saved = entry.savepoint
                words = (
                    f"of batch {saved.batch}, taken at {saved.taken_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC by "
                    f"{saved.by}, {format_size(saved.bytes)}"
                )
                return SavepointToProve(id=saved.id, batch=saved.batch, words=words)
        raise aborted(
            stream,
            "there is none",
            "a savepoint that `streamwarden savepoint list` shows as complete",
            f"run `streamwarden savepoint create {stream}`, or set `savepoints.schedule` in the stream's file",
        )

    def broken_files(self, stream: str, savepoint: str) -> Sequence[str]:
        savepoints = Savepoints.of(self._stream(stream))
        faults = verify(savepoints, savepoints.get(savepoint))
        return [f"{fault.path} is {fault.observed}, expected {fault.expected}" for fault in faults]

    def batches(self, run_id: str, fork: ForkView, most: int) -> Sequence[int]:
        stream = self._stream(fork.origin)
        checkpoint, first = checkpoint_of(stream), _after(fork)
        try:
            history, committed = survey_logs(checkpoint), committed_times(checkpoint)
            batches: list[int] = []
            while len(batches) < most and (batch := first + len(batches)) in history.commits & history.offsets.keys():
                batches.append(batch)
            names: dict[str, None] = {}
            for batch in batches:
                own = (join(OFFSETS, str(batch)), join(COMMITS, str(batch)))
                starting = plans.starting_logs(history, history.offsets[batch])
                names |= dict.fromkeys((*own, *starting, *plans.source_logs(history, batch)))
            held = str(self._home(run_id) / HELD)
            links = (Link(join(checkpoint.path, name), join(held, name)) for name in names)
            carry_out(links, checkpoint.fs, None)
        except OSError as error:
            raise aborted(
                fork.origin,
                f"{error.filename} was purged while it was read",
                "logs that the stream keeps for the length of a drill",
                "run the drill again, sooner after a savepoint",
            ) from error
        at = committed.get(first)
        if batches and at is not None and any(file.stat().st_mtime > at for file in files_of(Path(stream.job))):
            raise aborted(
                fork.origin,
                f"the job has changed since the stream executed batch {first}, so that it may write other rows",
                "the same job before and after the savepoint",
                f"take another savepoint with this job: `streamwarden savepoint create {fork.origin}`",
            )
        return batches

    def execute(self, run_id: str, fork: ForkView, batches: Sequence[int], *, within: Seconds) -> Replay:
        into, began = self._home(run_id) / FORK, time.time()
        run = replace(self._stream(fork.origin), checkpoint=str(self._home(run_id) / HELD))
        end_left(into / PROGRAM)  # of a step that was killed
        for answer in (DONE, PROBLEM):
            (into / PROGRAM / answer).unlink(missing_ok=True)
        left = [batch for batch in batches if batch not in committed_times(checkpoint_of(fork.spec))]
        try:
            if left:
                execute(
                    Twin(spec=fork.spec, places=Places.under(str(into)), run=run, folder=into / PROGRAM),
                    left,
                    within=within,
                )
        except VerificationError:
            problem = files.read_document(into / PROGRAM / PROBLEM)
            if problem is None or problem["batch"] is None:
                raise
            failure = f"batch {problem['batch']} could not be executed: {problem['error']}"
            return Replay(started_at=began, seconds=time.time() - began, failure=failure)
        return Replay(started_at=began, seconds=round(time.time() - began, 1))

    def compare(
        self, run_id: str, fork: ForkView, batches: Sequence[int], verification: VerificationSpec
    ) -> TwinReport:
        stream, program = self._stream(fork.origin), self._home(run_id) / FORK / PROGRAM
        done: dict[str, Any] = files.read_document(program / DONE) or {}
        if not done:
            raise DrillError("the fork executed no batch", where=str(program), next_step="run the step recovery first")
        plan, sink = (program / PLAN).read_text(encoding="utf-8"), fork.spec.sink
        assert isinstance(sink, Sink)  # no other stream can be forked
        output = sink.read(fork.spec, {}, committed=batches[-1], first=batches[0], deduplicated=True)
        key = find_key(verification.key, sink.key, plan, output)
        tolerances = {name: Tolerance(relative=bound) for name, bound in verification.tolerance.items()}
        records = int(done["records"])
        try:
            outcome = against_stream(
                stream, fork.spec, output, batches, key=key, tolerances=tolerances, records=records
            )
        except (NotComparable, Damaged, OSError, CheckpointError) as error:
            raise _not_compared(fork, error.observed if isinstance(error, StreamwardenError) else str(error)) from error
        if not outcome.expected and not outcome.actual:
            raise _not_compared(fork, f"the batches {batches[0]} to {batches[-1]} wrote no row")
        return TwinReport(
            first=batches[0],
            last=batches[-1],
            seconds=round(sum(float(took) for took in done["seconds"].values()), 1),
            twins=1,
            key=key.columns,
            key_from=key.origin,
            left_out=(),
            alone=True,
            unproven=(f"compared: only the rows of the batches {batches[0]} to {batches[-1]}",),
            outcome=outcome,
            reads_again=bool(done.get(READS_AGAIN)),
            watermarks=watermarks_in(plan),
            third=judged(outcome, batches, len(batches)).sentence,
        )

    def release(self, run_id: str) -> None:
        home = self._home(run_id)
        program = home / FORK / PROGRAM
        if program.is_dir():
            end_left(program)
            files.tidy(program)
        disk.remove_folder(home / HELD, below=home)

    def _home(self, run_id: str) -> Path:
        return self._archive.folder(run_id).absolute()


def _after(fork: ForkView) -> int:
    assert fork.batch is not None  # it is a savepoint's
    return fork.batch + 1


def _not_compared(fork: ForkView, why: str) -> VerificationError:
    return VerificationError(
        f"the rows of the fork cannot be compared with the stream's own: {why}",
        expected="rows that the stream wrote in these batches, and still has",
        where=fork.output or fork.origin,
        next_step="run the drill again after another savepoint, when the stream has written rows since",
    )


OFFERS: Final = (Offer(SAVEPOINTS, lambda context: StreamSavepoints(context.archive, context.stream)),)
