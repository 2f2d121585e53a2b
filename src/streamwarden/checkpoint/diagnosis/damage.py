"""A damage: something that is missing or wrong in a checkpoint, and what Spark will do about it.

The statements about Spark were tested file by file with Spark 4.3.0; `tests/spark/proofs/test_checkpoint_damage.py`
repeats these tests. Earlier versions cannot repair snapshots: they refuse to start where this package says that Spark
recovers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_EACH: Final = 10
RESTORE: Final = "restore it from a copy of the checkpoint"

NEW_PLACES: Final = "a new checkpoint path and a new output, both in one change"
"""A new checkpoint alone loses rows: its batches begin at 0, and Spark skips those that an old manifest has."""


class Consequence(StrEnum):
    """What follows from a damage, mildest first."""

    HARMLESS = "harmless"  # Spark does not read it any more
    RECOVERS = "recovers"  # Spark starts, and the output is right
    REFUSES = "refuses"  # Spark does not start, or fails in its first batch; nothing is lost by that
    DOUBLES = "doubles"  # Spark starts and continues, and the output has rows twice
    LOSES = "loses"  # Spark starts and continues without an error, and rows are missing from the output

    @property
    def grave(self) -> bool:
        """The query does not run, or its output is wrong."""
        return self in (Consequence.REFUSES, Consequence.DOUBLES, Consequence.LOSES)


@dataclass(frozen=True, slots=True)
class Damage:
    """One missing or damaged file. The fields are in the order in which a person reads them.

    Args:
        path: below the checkpoint, or below the output for the sink's manifest.
        what: what was observed.
        spark: what Spark will do about it.
        next_step: what a person should do.
        error_class: Spark's error class if Spark refuses, or fails later, with one.
    """

    path: str
    what: str
    consequence: Consequence
    spark: str
    next_step: str
    error_class: str | None = None


def refuses_start(path: str, what: str, next_step: str = RESTORE, error_class: str | None = None) -> Damage:
    """Spark does not start."""
    spark = f"Spark refuses to start{f' ({error_class})' if error_class else ''}."
    return Damage(path, what, Consequence.REFUSES, spark, next_step, error_class)


def fails_first_batch(path: str, what: str, error_class: str) -> Damage:
    """Spark's first batch fails with the error class."""
    spark = f"Spark's first batch fails ({error_class})."
    next_step = f"{RESTORE}, or start from an older copy of the checkpoint folder, or with {NEW_PLACES}"
    return Damage(path, what, Consequence.REFUSES, spark, next_step, error_class)


def doubles_rows(path: str, what: str, spark: str, next_step: str = RESTORE) -> Damage:
    """Spark starts, and rows are in the output twice."""
    return Damage(path, what, Consequence.DOUBLES, spark, next_step)


def missing_files(folder: str, missing: range) -> Iterator[tuple[str, str]]:
    """(path, what was observed) of missing files of a log: one text for many, so that a stray file with a huge number
    does not make millions of findings."""
    if len(missing) > _EACH:
        yield f"{folder}/{missing[0]}", f"this file and the {len(missing) - 1:,} after it are missing"
        return
    for batch in missing:
        yield f"{folder}/{batch}", "the file is missing"


def loses_rows(path: str, what: str, spark: str, next_step: str, error_class: str | None = None) -> Damage:
    """Spark starts, and rows are missing from the output."""
    return Damage(path, what, Consequence.LOSES, spark, next_step, error_class)


def recovers(path: str, what: str, spark: str, next_step: str = "nothing: start the stream") -> Damage:
    """Spark starts, and the output is right."""
    return Damage(path, what, Consequence.RECOVERS, spark, next_step)


def not_read(path: str, what: str) -> Damage:
    """A damaged file that only a rewind needs."""
    spark = "Spark does not read it any more; a fork cannot be rewound to it."
    return Damage(path, what, Consequence.HARMLESS, spark, "nothing")


def worst(damages: tuple[Damage, ...]) -> Consequence | None:
    """The gravest consequence; None if there is no damage."""
    order = list(Consequence)
    return max((each.consequence for each in damages), key=order.index, default=None)
