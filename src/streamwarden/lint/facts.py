"""The input of the rules: one stream's declaration, job, plan, checkpoint and history, gathered once.

None always means that something was not read, or could not be; an empty tuple means that there is nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from streamwarden.lifecycle.script_queries import NamedInput, NamedQuery, WritingFunction
from streamwarden.lint.finding import FactOrigin
from streamwarden.stream.spec import StreamSpec


class OperatorKind(StrEnum):
    """The stateful operators, by their usual names."""

    AGGREGATION = "aggregation"
    DEDUPLICATION = "deduplication"
    JOIN = "stream-stream join"
    PROCESSOR = "transformWithState"
    GROUP_STATE = "state of groups"


STATEFUL: Final[Mapping[str, OperatorKind]] = {
    "Aggregate": OperatorKind.AGGREGATION,
    "Distinct": OperatorKind.DEDUPLICATION,
    "Deduplicate": OperatorKind.DEDUPLICATION,
    "DeduplicateWithinWatermark": OperatorKind.DEDUPLICATION,
    "Join": OperatorKind.JOIN,
    "TransformWithState": OperatorKind.PROCESSOR,
    "TransformWithStateInPandas": OperatorKind.PROCESSOR,
    "TransformWithStateInPySpark": OperatorKind.PROCESSOR,
    "FlatMapGroupsWithState": OperatorKind.GROUP_STATE,
    "FlatMapGroupsInPandasWithState": OperatorKind.GROUP_STATE,
}
"""The operators of a logical plan that keep state if their input is a stream, as Spark 4.3 calls them."""


class Bound(StrEnum):
    """The mechanism that removes rows from an operator's state."""

    WATERMARK = "the watermark"
    TTL = "a time to live"
    TIMERS = "timers"
    TIMEOUT = "a timeout"
    ONE_ROW = "there is one row only"
    NONE = "nothing"
    UNCLEARED = "timers that clear nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One stateful operator.

    Args:
        name: as it is written where it was read: `dropDuplicates`, `Deduplicate`, `dedupe`.
        why: what shows the bound, for the user.
        where: line of the job, node of the plan, folder of the checkpoint.
    """

    kind: OperatorKind
    name: str
    bound: Bound
    why: str
    origin: FactOrigin
    where: str

    @property
    def by_event_time(self) -> bool:
        return self.bound is Bound.WATERMARK


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkUse:
    """A `writeStream` of the job.

    Args:
        format: `parquet`, `kafka`, …, `foreachBatch`, `foreach`; None if it is not a constant.
        function: of foreachBatch, if the text has it.
        uses_batch_id: of foreachBatch: whether what the function writes depends on the batch's id; None if the text
            does not show it.
    """

    format: str | None
    line: int
    function: WritingFunction | None = None
    uses_batch_id: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts from the text of a job. It never shows all: modules that the job imports may do more.

    Args:
        problem: why the text could not be read; then nothing else is known.
        documented: whether its docstring has a part on its state.
        parsed: whether the text is Python at all.
        module: it has a top-level `build`, so the runner starts its one query.
        queries: how many queries it starts; None if the text does not show that (a loop, a branch, foreign code).
        operators: by the names of methods. Of their bounds only those of a processor are known.
        named: what each `writeStream` names in constants; inputs: the same of each `readStream`.
        watermarked: it calls `withWatermark`.
        reads_rows: it calls `read_rows`; None if it uses other code that may call it.
    """

    path: str
    problem: str = ""
    documented: bool = False
    parsed: bool = True
    module: bool = False
    queries: int | None = None
    operators: tuple[Operator, ...] = ()
    sinks: tuple[SinkUse, ...] = ()
    named: tuple[NamedQuery, ...] = ()
    inputs: tuple[NamedInput, ...] = ()
    watermarked: bool = False
    reads_rows: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """Facts from the analyzed logical plan of the job's query."""

    operators: tuple[Operator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSummary:
    """Facts from the checkpoint of a query that has run.

    Args:
        committed: newest committed batch.
        state_bytes: under `state/`, all versions that are kept.
    """

    path: str
    committed: int | None
    state_bytes: int
    operators: tuple[Operator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFacts:
    """A drill that is declared for the stream.

    Args:
        rewind: batches that its fork repeats; None: all of them, which needs no old version.
        last_at, last_passed: of its newest completed run; None if there is none. They need a history.
    """

    name: str
    schedule: str | None
    rewind: int | None = None
    last_at: float | None = None
    last_passed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFacts:
    """The newest batches in the store. Times in seconds.

    Args:
        batches: committed batches in the window; unreported: those whose report is lost.
        state_memory: bytes that the state takes in memory (HDFS-backed: on the heap), of the newest report.
        rows_first, rows_last: state rows of the oldest and newest report; rows_removed: of all reports together.
        batch, checkpoint: median wall time of a batch, and of its part that is the checkpoint; None with no report.
    """

    now: float
    batches: int = 0
    unreported: int = 0
    state_memory: int | None = None
    rows_first: int = 0
    rows_last: int = 0
    rows_removed: int = 0
    batch: float | None = None
    checkpoint: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Args:
    conf: Spark's settings in force, as the runner submits them.
    writers: Spark's name of a sink -> why it does not write a batch exactly once; None if it does.
    plan: None unless it was requested.
    drills: the drills declared for this stream; None if the drills' files were not read.
    readers: the other streams that read a folder of this one's source.
    pattern_names: input files whose names Spark takes for patterns.
    """

    spec: StreamSpec
    conf: Mapping[str, str]
    writers: Mapping[str, str | None]
    job: JobFacts
    plan: PlanFacts | None = None
    checkpoint: CheckpointSummary | None = None
    drills: Sequence[DrillFacts] | None = None
    history: HistoryFacts | None = None
    readers: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())
    pattern_names: Sequence[str] = ()

    @property
    def file(self) -> str:
        """The file of the declaration, for a finding."""
        return self.spec.file or self.spec.name

    @property
    def all_known(self) -> bool:
        """Whether some source shows all stateful operators: the plan, or the checkpoint of a query that has run."""
        return self.plan is not None or self._committed is not None

    def operators(self) -> tuple[Operator, ...] | None:
        """The stateful operators from the best source: the plan, else the checkpoint, else the job's text.

        A kind of operator that the text names and the checkpoint lacks is added: the job may have changed since. None:
        no source shows any operator.
        """
        if self.plan is not None:
            return tuple(self._with_processor(operator) for operator in self.plan.operators)
        if self._committed is not None:
            kinds = {operator.kind for operator in self._committed.operators}
            added = (operator for operator in self.job.operators if operator.kind not in kinds)
            return (*map(self._with_processor, self._committed.operators), *added)
        return self.job.operators or None

    @property
    def _committed(self) -> CheckpointSummary | None:
        return self.checkpoint if self.checkpoint is not None and self.checkpoint.committed is not None else None

    def _with_processor(self, found: Operator) -> Operator:
        """Add the bound of a Python processor from its class in the job's text. It is neither in the plan, which
        holds the processor pickled, nor in the checkpoint."""
        written = [operator for operator in self.job.operators if operator.kind is OperatorKind.PROCESSOR]
        if found.kind is OperatorKind.PROCESSOR and found.bound is Bound.UNKNOWN and len(written) == 1:
            return written[0]
        return found
