"""A recommendation on one topic, and every number that it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Decision(StrEnum):
    KEEP = "keep"
    CHANGE = "change"
    UNKNOWN = "unknown"  # too little data for a recommendation


@dataclass(frozen=True, slots=True)
class Number:
    """Args: unit: `rows`, `bytes`, `seconds`, `%`, …, empty for a ratio; source: where it was measured, or how."""

    name: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Args:
    says: what was found and what to do, in a sentence or two.
    settings: setting -> value to set, where something is to be changed.
    costs: what the present setting costs, in percent of what its topic measures; None: not known.
    cures: name of the health check that judges the same.
    """

    topic: str
    status: Decision
    says: str
    numbers: tuple[Number, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    costs: float | None = None
    cures: str = ""


def unknown(topic: str, why: str, *numbers: Number) -> Recommendation:
    """No recommendation, and the reason."""
    return Recommendation(topic=topic, status=Decision.UNKNOWN, says=why, numbers=numbers)
