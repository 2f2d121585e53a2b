"""Input of the sides of a query's books: its plans, its output, and its state after a batch."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from streamwarden.sinks.base import WRITTEN_BY, Sink
from streamwarden.sources.audited import load_exactly
from streamwarden.spark.audit.input import AuditedInput
from streamwarden.spark.audit.plan import AUDIT, CannotBalance, Catalyst, children, descended, kind
from streamwarden.spark.state.reader import state_after
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range


@dataclass(frozen=True, kw_only=True)
class Audited:
    """Input of the sides of the books."""

    catalyst: Catalyst
    spec: StreamSpec
    request: dict[str, Any]
    streaming: Any
    batch: Any
    frame: DataFrame
    given: AuditedInput

    @property
    def after(self) -> int:
        return int(self.request["after"])

    @property
    def upto(self) -> int:
        return int(self.request["upto"])

    @property
    def final_us(self) -> int:
        """The watermark of the last audited batch, Unix microseconds."""
        return int(self.request["final_ms"]) * 1000

    def state(self, batch: int, **options: str) -> DataFrame:
        """The rows of the first operator's state after `batch`."""
        return state_after(self.catalyst.spark, self.request["checkpoint"], batch, options)

    @property
    def replaces(self) -> bool:
        """Whether a later row of the output takes the place of an earlier one with the same key (mode update)."""
        return self.spec.sink.mode is not OutputMode.APPEND

    def output(self) -> DataFrame:
        """The rows that the audited batches wrote. Raises CannotBalance if later rows take their place."""
        if self.replaces:
            raise CannotBalance(
                f"in output mode {self.spec.sink.mode} a later row takes the place of an earlier one of its key, and "
                "only an aggregation says with each row all that it has counted"
            )
        if "files" in self.request["output"]:
            return self._files()
        return self.written.where(f.col(WRITTEN_BY) <= self.upto).drop(WRITTEN_BY)

    def nothing(self) -> DataFrame:
        """No row, with the columns of the output."""
        return self.catalyst.spark.createDataFrame([], self.frame.schema)

    @cached_property
    def written(self) -> DataFrame:
        """The rows that the audited batches and later ones wrote on a service, with the column WRITTEN_BY."""
        sink = self.spec.sink
        rows = None
        if isinstance(sink, Sink) and self.spec.trigger.real_time is None:
            began = self.request["output"]["began"]
            audited = Range(after=self.after, upto=self.upto)
            rows = sink.rows_of(self.catalyst.spark, self.spec, audited, began, self.frame.schema)
        if rows is None:
            raise CannotBalance(f"the audit cannot tell which batch wrote a row of the sink {sink.kind}")
        return rows

    def _files(self) -> DataFrame:
        given = self.request["output"]
        spark = self.catalyst.spark
        if not given["files"]:
            return self.nothing()
        reader = spark.read.format(given["format"]).options(**given["options"])
        return load_exactly(reader.schema(self.frame.schema), given["files"])

    def rows_below(self, name: str, repeated: int = 0) -> DataFrame:
        """The rows that the operator takes; see `AuditedInput.with_batches`.

        Args:
            repeated: how many of the first columns are there a second time, and are left out.
        """
        below = children(descended(self.batch, name))[0]
        rows = self.catalyst.frame(self.catalyst.tagged(below))
        if AUDIT not in rows.columns:
            raise CannotBalance("the operator's rows do not come from the stream's source")
        if repeated:  # not otherwise: it would give the columns new ids
            first = [f"__repeated{index}" for index in range(repeated)]
            rows = rows.toDF(*first, *rows.columns[repeated:]).drop(*first)
        return self.given.with_batches(rows)


def top(plan: Any, name: str) -> Any:
    """The operator, which has to be the last step of the query."""
    while kind(plan) == "CollectMetrics":
        plan = children(plan)[0]
    if kind(plan) != name:
        raise CannotBalance(
            f"the step {kind(plan)} above the operator {name} may drop or change its rows before they are written"
        )
    return plan
