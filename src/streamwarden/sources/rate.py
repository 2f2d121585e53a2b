"""The kind of source `rate`: Spark's generator, which makes rows by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.sources import rate_began, rate_ends
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.problems import Problem
from streamwarden.sources.base import FinishedRun, GeneratedSource, RunInput
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.oracles.oracle import RateFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource(GeneratedSource):
    """Rows (`timestamp`, `value`); the option `rowsPerSecond` says how many."""

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

    @property
    def _rows_per_second(self) -> str:
        return self.options.get("rowsPerSecond", "1")


def _never_run(spec: StreamSpec, committed: int | None) -> Iterator[str]:
    if spec.last_batch is not None and not spec.is_last(committed):
        yield f"batches never run: the newest committed batch is {committed}, and the last one is {spec.last_batch}"
