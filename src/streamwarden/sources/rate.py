"""The kind of source `rate`: Spark's generator of rows that are counted by the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamwarden.problems import Problem
from streamwarden.sources.base import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource(Source):
    """Rows (`timestamp`, `value`); the option `rowsPerSecond` says how many."""

    kind: str = "rate"

    def problems(self) -> Iterable[Problem]:
        return ()
