"""The kind of sink `parquet`: a folder of files under Spark's own manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamwarden.lifecycle.forks.places import Places
from streamwarden.problems import Problem
from streamwarden.sinks.base import Sink, refused_mode
from streamwarden.stream import OutputMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(Sink):
    """A folder of files; exactly once for readers that honour its `_spark_metadata` manifest. `mode` is `append`."""

    MANIFEST: ClassVar[bool] = True

    kind: str = "parquet"
    path: str = field()
    """the output folder"""

    def problems(self) -> Iterator[Problem]:
        if self.mode is not OutputMode.APPEND:
            yield refused_mode(self.mode, "append: the parquet sink knows no other mode")

    def forked(self, places: Places) -> ParquetSink:
        return replace(self, path=places.output)

    def located(self, locate: Callable[[str], str]) -> ParquetSink:
        return replace(self, path=locate(self.path))
