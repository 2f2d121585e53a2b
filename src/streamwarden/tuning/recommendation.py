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
    """

    topic: str
    status: Decision
    says: str
    numbers: tuple[Number, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def unknown(topic: str, why: str, *numbers: Number) -> Recommendation:
    """No recommendation, and the reason."""
    return Recommendation(topic=topic, status=Decision.UNKNOWN, says=why, numbers=numbers)
