"""The kind of source `rate`: Spark's generator, which makes rows by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import Damaged, is_number
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.formats.sources import rate_began, rate_ends
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.problems import Problem
from streamwarden.sources.audited import AskedSource, CannotBalance, batch_tag
from streamwarden.sources.base import FinishedRun, GeneratedSource, RunInput
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range
from streamwarden.verification.oracle import RateFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_Seconds: TypeAlias = tuple[int, Sequence[tuple[int, int, int]]]
"""When the source began (Unix ms), and (first second, the second behind the last one, batch)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource(GeneratedSource):
    """Rows (`timestamp`, `value`); the option `rowsPerSecond` says how many."""

    FORMATS: ClassVar[tuple[str, ...]] = ("rate",)

    kind: str = "rate"

    def problems(self) -> Iterable[Problem]:
        return ()

    def describe(self, shorten: Callable[[str], str]) -> str:
        return f"Spark's rate source, {self._rows_per_second} rows a second"

    def generate(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.format("rate").options(**self.options).load()

    def read_back(self, spec: StreamSpec, run: FinishedRun) -> RunInput:
        """When the source began, and where each batch ended: the rows follow from that.

        A run that ended before its last batch has read less than it had to, which its own offsets do not show.
        """
        try:
            ends = rate_ends(run.checkpoint)
            began = rate_began(run.checkpoint)
        except (CheckpointError, Damaged, OSError, ValueError, IndexError) as error:
            raise VerificationError(
                f"the checkpoint does not say what the rate source gave: {error}",
                expected="offsets/ and sources/0/0, as Spark wrote them",
                where=spec.checkpoint,
                next_step="run `streamwarden inspect` on it",
            ) from error
        facts = RateFacts(
            began_ms=began,
            ends=ends,
            rows_per_second=int(self._rows_per_second),
        )
        return RunInput(inputs=run.inputs or (), rate=facts, problems=tuple(_never_run(spec, run.committed)))

    @classmethod
    def audited(cls, spec: StreamSpec, checkpoint: Location, audited: Range) -> _Seconds | None:
        """None unless the query has exactly one such source."""
        sources = offsets(checkpoint, audited.upto).sources
        places = [place for place, offset in enumerate(sources) if is_number(offset)]
        if len(places) != 1:
            return None
        ends = rate_ends(checkpoint, places[0])
        seconds = [(ends.get(batch - 1, 0), ends[batch], batch) for batch in audited.batches if batch in ends]
        return rate_began(checkpoint, places[0]), seconds

    @classmethod
    def read_audited(cls, asked: AskedSource, read: _Seconds | None) -> DataFrame:
        from pyspark.sql import functions as f

        asked.require_first()
        if read is None or any(name.startswith("rampup") for name in asked.lowered):
            raise CannotBalance("the job has several rate sources, or one that begins slowly (rampUpTime)")
        began, ranges = read
        rows_per_second = int(asked.lowered.get("rowspersecond", "1"))
        seconds = [
            (start * rows_per_second, end * rows_per_second - 1, batch) for start, end, batch in ranges if start < end
        ]
        values = asked.spark.createDataFrame(seconds, "__first BIGINT, __last BIGINT, __batch BIGINT").select(
            f.explode(f.sequence("__first", "__last")).alias("value"), "__batch"
        )
        at = f.timestamp_millis(f.lit(began) + f.round(f.col("value") * 1000 / rows_per_second).cast("bigint"))
        return values.select(at.alias("timestamp"), "value", batch_tag("__batch"))

    @property
    def _rows_per_second(self) -> str:
        return self.options.get("rowsPerSecond", "1")


def _never_run(spec: StreamSpec, committed: int | None) -> Iterator[str]:
    if spec.last_batch is not None and not spec.is_last(committed):
        yield f"batches never run: the newest committed batch is {committed}, and the last one is {spec.last_batch}"
