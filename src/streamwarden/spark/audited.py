"""What the sides of a query's books are made of: its plans, its output, and its state after a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamwarden.spark.audit_input import AuditedInput
from streamwarden.spark.audit_plan import AUDIT, CannotBalance, Catalyst, children, kind
from streamwarden.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What the sides of the books are made of."""

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
        reader = self.catalyst.spark.read.format("statestore").option("batchId", batch).options(**options)
        return reader.load(self.spec.checkpoint)

    def output(self) -> DataFrame:
        """What the audited batches wrote."""
        given = self.request["output"]
        if "impossible" in given:
            raise CannotBalance(given["impossible"])
        spark = self.catalyst.spark
        if not given["files"]:
            return spark.createDataFrame([], self.frame.schema)
        reader = spark.read.format(given["format"]).options(**given["options"])
        return reader.schema(self.frame.schema).load(given["files"])

    def rows_below(self, name: str) -> DataFrame:
        """The rows that the operator takes; see `AuditedInput.with_batches`."""
        plan = self.batch
        while kind(plan) != name:
            plan = children(plan)[0]
        rows = self.catalyst.frame(self.catalyst.tagged(children(plan)[0]))
        if AUDIT not in rows.columns:
            raise CannotBalance("the operator's rows do not come from the stream's source")
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
