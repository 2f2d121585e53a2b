"""A finding: something in a checkpoint that is not as it should be, and what Spark will do about it.

What Spark does was tried file by file with Spark 4.3.0; `tests/spark/test_checkpoint_damage.py` does so again. An older
Spark that cannot repair snapshots refuses where this says it recovers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Consequence(StrEnum):
    """What follows from a damage, mildest first."""

    HARMLESS = "harmless"  # Spark never looks at it again
    RECOVERS = "recovers"  # Spark starts, and the output is right
    REFUSES = "refuses"  # Spark does not start, or fails in its first batch; nothing is lost by that
    DOUBLES = "doubles"  # Spark starts and runs on, and rows come twice
    LOSES = "loses"  # Spark starts and runs on, and rows are missing from the output: nothing tells at the time

    @property
    def grave(self) -> bool:
        """The query does not run, or its output is wrong."""
        return self in (Consequence.REFUSES, Consequence.DOUBLES, Consequence.LOSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One missing or damaged file.

    Args:
        path: below the checkpoint, or below the output for the sink's manifest.
        what: what was observed.
        spark: what Spark will do about it.
        error_class: Spark's error class if it refuses, or fails later, with one.
        next_step: what a person should do.
    """

    path: str
    what: str
    consequence: Consequence
    spark: str
    next_step: str
    error_class: str | None = None


def refuses_start(path: str, what: str, next_step: str, error_class: str | None = None) -> Damage:
    """Spark does not start."""
    spark = f"Spark refuses to start{f' ({error_class})' if error_class else ''}."
    return finding(path, what, Consequence.REFUSES, spark, next_step, error_class)


def loses_rows(path: str, what: str, spark: str, next_step: str, error_class: str | None = None) -> Damage:
    """Spark starts, and rows are missing from the output."""
    return finding(path, what, Consequence.LOSES, spark, next_step, error_class)


def not_read(path: str, what: str) -> Damage:
    """A damaged file that only a rewind needs."""
    spark = "Spark does not read it any more; a fork cannot be rewound to it."
    return finding(path, what, Consequence.HARMLESS, spark, "nothing")


def finding(
    path: str, what: str, consequence: Consequence, spark: str, next_step: str, error_class: str | None = None
) -> Damage:
    """A finding, its fields in the order in which a person reads them."""
    return Damage(
        path=path, what=what, consequence=consequence, spark=spark, next_step=next_step, error_class=error_class
    )


def worst(findings: tuple[Damage, ...]) -> Consequence | None:
    """The gravest consequence; None if there is no finding."""
    order = list(Consequence)
    return max((finding.consequence for finding in findings), key=order.index, default=None)
