"""Compares two values of a column: exactly, unless the oracle declares a tolerance for the column. Pure.

A sum of DOUBLE values depends on the order in which Spark adds them, so two correct runs differ in its last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

__all__ = ["Tolerance"]

Same = Callable[[tuple[object, ...], tuple[object, ...]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a number may be from the expected one: |actual - expected| <= max(relative * the larger magnitude,
    absolute).

    Args:
        relative: such as 1e-9 for sums of DOUBLE.
        absolute: for numbers near 0, such as sums whose terms cancel out.

    Raises ValueError unless both are finite and not negative, and one of them is above 0.
    """

    relative: float = 0.0
    absolute: float = 0.0

    def __post_init__(self) -> None:
        bounds = (self.relative, self.absolute)
        if not all(math.isfinite(bound) and bound >= 0 for bound in bounds) or not any(bounds):
            raise ValueError(
                f"{self} is not a tolerance: both bounds must be finite and not negative, and one must be above 0"
            )

    def covers(self, one: object, other: object) -> bool:
        """Whether both are numbers and their difference is within the tolerance."""
        mine, its = number(one), number(other)
        if mine is None or its is None or not (math.isfinite(mine) and math.isfinite(its)):
            return False
        return abs(mine - its) <= max(self.relative * max(abs(mine), abs(its)), self.absolute)


def number(value: object) -> float | None:
    """The value as a float; None if it is not a number."""
    try:
        return None if isinstance(value, (bool, str, bytes)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def comparison(tolerances: Mapping[str, Tolerance], columns: Sequence[str]) -> Same:
    """Whether two rows of values are the same. NaN is the same as NaN, as in Spark.

    Args:
        columns: names of the values, in order; may be left out where there is no tolerance.
    """
    bounds = [tolerances.get(name) for name in columns]

    def same(actual: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
        if actual == wanted:
            return True
        pairs = zip_longest(actual, wanted, bounds)
        return all(
            _equal(one, other) or (bound is not None and bound.covers(one, other)) for one, other, bound in pairs
        )

    return same


def _equal(one: object, other: object) -> bool:
    return one == other or (is_nan(one) and is_nan(other))


def is_nan(value: object) -> bool:
    """Whether the value is the float NaN."""
    return isinstance(value, float) and math.isnan(value)
