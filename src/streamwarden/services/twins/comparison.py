"""Compares a broken fork with a twin: makes the twin, lets it execute the fork's batches, compares the outputs."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import commit, log_position
from streamwarden.drills.records.sections import OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, ConfigError, ProcessError, SourceError, VerificationError
from streamwarden.services.twins import making
from streamwarden.services.twins.comparing import compare, unstable_columns
from streamwarden.services.twins.keys import RowKey, find_key
from streamwarden.services.twins.plan_replay import batches_of
from streamwarden.services.twins.running import Execution, Twin, execute
from streamwarden.services.twins.third_witness import ThirdWitness, third_witness
from streamwarden.services.verifying.batch_inputs import describe_input
from streamwarden.services.verifying.verification import read_facts
from streamwarden.sinks.base import Sink
from streamwarden.sinks.output import Output
from streamwarden.sources.base import FinishedRun, Source, StoredSource
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_count
from streamwarden.verification.batches import some
from streamwarden.verification.comparing.starts import Start, restarts, stale_entries
from streamwarden.verification.contradictions import contradictions
from streamwarden.verification.tolerance import Tolerance

_WATERMARK: Final = "EventTimeWatermark"
"""The node of a logical plan that sets a watermark."""


@dataclass
class Witness:
    """Compares one fork, whose drivers have ended, with its twins.

    Args:
        home: the folder of the twins.
        starts: of the fork's drivers, as recorded.
        first: first batch whose output is compared.
        within: how long each twin may take.
        stream: the stream as its file declares it now, whose own rows are compared, too, if the fork was rewound; None:
            it has no file any more.
    """

    fork: ForkView
    home: Path
    verification: VerificationSpec
    starts: Sequence[Start]
    first: int
    within: Seconds
    stream: StreamSpec | None = None

    def report(self, more: Callable[[Output], Iterable[str]] = lambda output: ()) -> TwinReport:
        """The comparison with a twin, and with a second one if a row differs.

        Args:
            more: finds other problems of an output of the fork.

        Raises VerificationError if the twin cannot be made or run, or the batches cannot be repeated.
        """
        began = time.monotonic()
        alone = OracleKind.JOB not in self.fork.oracles
        twin, done = run_twin(self.fork, self.home, 1, self._batches, self.within)
        spec = self.fork.spec
        fork_output, its = without_common(self._output(spec), spec, self._output(twin.spec), twin.spec)
        key = find_key(self.verification.key, spec.sink.key, done.plan, its)
        tolerances = {name: Tolerance(relative=bound) for name, bound in self.verification.tolerance.items()}
        problems = [
            *watermark_problems(self._checkpoint, checkpoint_of(twin.spec), self._batches, self._skipped, done.plan),
            *self._problems_of_input(fork_output),
            *more(fork_output),
        ]
        against = partial(
            compare,
            its,
            fork_output,
            key,
            records=done.records,
            tolerances=tolerances,
            problems=problems,
            input_of=self._input_of,
        )
        left_out: tuple[str, ...] = ()
        outcome, twins = against(), 1
        if outcome.rows_differ:
            twins = 2
            other, _ = run_twin(self.fork, self.home, twins, self._batches, self.within)
            left_out = unstable_columns(its, self._output(other.spec), key, tolerances)
            outcome = against(left_out=left_out) if left_out else outcome
        third = self._third(fork_output, key, done.plan, tolerances, left_out)
        outcome = replace(outcome, problems=(*outcome.problems, *(third.problems if third else ())))
        return TwinReport(
            first=self._batches[0],
            last=self._batches[-1],
            seconds=round(time.monotonic() - began, 1),
            twins=twins,
            key=key.columns,
            key_from=key.origin,
            left_out=left_out,
            alone=alone,
            outcome=outcome,
            reads_again=done.reads_again,
            watermarks=watermarks_in(done.plan),
            third=third.sentence if third else None,
        )

    def _third(
        self, output: Output, key: RowKey, plan: str, tolerances: Mapping[str, Tolerance], left_out: Sequence[str]
    ) -> ThirdWitness | None:
        """What the stream's own rows say; None if the fork began from nothing."""
        if self.fork.batch is None:
            return None
        if self.stream is None:
            return ThirdWitness("not compared with the stream's own rows: the stream's file is gone")
        return third_witness(
            self.stream,
            self.fork.spec,
            output,
            self._batches,
            key=key,
            plan=plan,
            tolerances=tolerances,
            left_out=left_out,
        )

    @cached_property
    def _checkpoint(self) -> Location:
        return checkpoint_of(self.fork.spec)

    @cached_property
    def _batches(self) -> list[int]:
        return batches_of(self._checkpoint, self.fork.batch)

    @cached_property
    def _files(self) -> Mapping[int, Sequence[Path]]:
        return read_facts(self.fork.spec).files

    def _input_of(self, batch: int) -> str | None:
        return describe_input(batch, checkpoint=self._checkpoint, files=self._files)

    @cached_property
    def _skipped(self) -> frozenset[int]:
        return restarts(self.starts).skipped

    def _output(self, spec: StreamSpec) -> Output:
        assert isinstance(spec.sink, Sink)  # no other stream can be forked
        return spec.sink.read(spec, {}, committed=self._batches[-1], first=self.first, deduplicated=True)

    def _problems_of_input(self, output: Output) -> list[str]:
        """Problems that the job's oracle would report: input that was never read, or read in another order,
        and facts that contradict the launcher's record."""
        spec, position = self.fork.spec, log_position(self._checkpoint)
        assert isinstance(spec.source, Source)  # no other stream can be forked
        with TemporaryDirectory(prefix="streamwarden-input-") as scratch:
            run = FinishedRun(
                checkpoint=self._checkpoint,
                committed=position.committed,
                into=Path(scratch),
                bounded_from=self._batches[0],
                owed=spec.source.owed(self.fork.ranges),
                compared_from=self._batches[0],
            )
            given = spec.source.read_back(spec, run)
        # Of other sources `read_back` has said it: the input of a fork may grow, or be made, after the fork has ended.
        stored = isinstance(spec.source, StoredSource) and not spec.source.OFFSETS
        unread = spec.source.unplanned(spec) if stored else 0
        newest = output.manifest.newest if output.manifest else None
        return [
            *stale_entries(self.starts, newest=newest, planned=position.planned),
            *contradictions(replace(read_facts(spec), starts=tuple(self.starts))),
            *given.problems,
            *([f"never read: {format_count(unread, self.fork.what)} of the input"] if unread else []),
        ]


def run_twin(
    fork: ForkView, home: Path, number: int, batches: Sequence[int], within: Seconds
) -> tuple[Twin, Execution]:
    """Make the twin with this number, and let it execute the batches. Raises VerificationError."""
    try:
        twin = making.make(fork.spec, home, number, rewound=fork.batch is not None)
        return twin, execute(twin, batches, within=within)
    except (CheckpointError, ConfigError, ProcessError, SourceError) as error:
        raise VerificationError.of(error, "no twin can be made and run: ") from error


def without_common(mine: Output, fork: StreamSpec, its: Output, twin: StreamSpec) -> tuple[Output, Output]:
    """The outputs of a fork and of its twin without the problems that both have. Those come from the job and not from
    the fault: a job that writes files itself, for example, writes no manifest.

    Raises VerificationError for a problem that the twin alone has.
    """
    places = {_anywhere(problem, fork): problem for problem in mine.problems}
    alone = [problem for problem in its.problems if _anywhere(problem, twin) not in places]
    if alone:
        raise VerificationError(
            f"the output of the twin itself is broken: {alone[0]}",
            expected="an output without such a problem of a fork that no fault hits",
            where=twin.sink.place or twin.name,
            next_step="write an oracle for the job and set `verification.oracle: job`",
        )
    common = {_anywhere(problem, twin) for problem in its.problems}
    left = tuple(problem for place, problem in places.items() if place not in common)
    notes = {**mine.notes, "problems_of_the_twin_too": list(its.problems)} if its.problems else mine.notes
    return replace(mine, problems=left, notes=notes), replace(its, problems=())


def _anywhere(problem: str, spec: StreamSpec) -> str:
    return problem.replace(spec.sink.place or spec.name, "the output")


def watermarks_in(plan: str) -> int:
    """How many watermarks a logical plan has."""
    return plan.count(_WATERMARK)


def watermark_problems(
    fork: Location, twin: Location, batches: Sequence[int], skipped: Collection[int], plan: str
) -> list[str]:
    """Batches after which the fork's watermark is not the one that their rows make, as a problem.

    The twin executes each batch with the fork's watermark. A fork whose watermark does not move would therefore write
    as little as its twin. A query with several watermarks knows more of them the longer its driver lives, and the twin
    starts one for each batch: there only a watermark below the twin's is a problem.

    Args:
        skipped: batches that a start of the fork did not read again.
        plan: the query's logical plan.
    """
    several = watermarks_in(plan) > 1
    cases = []
    for batch in batches:
        watermark, wanted = (commit(place, batch).next_watermark_ms for place in (fork, twin))
        if watermark != wanted and not (several and watermark > wanted) and batch not in skipped:
            cases.append(f"after batch {batch} it is {watermark} ms, and {wanted} ms in the twin")
    return some("watermark that the batch's rows do not explain", cases)
