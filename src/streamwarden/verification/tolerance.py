"""How far two values of a column may differ: not at all, unless the oracle declares a tolerance for the column. Pure.

A sum of DOUBLE values depends on the order in which Spark adds them, so two correct runs differ in its last digits.
"""

import math
from dataclasses import dataclass

__all__ = ["Tolerance"]


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
