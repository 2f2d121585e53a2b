"""Whether the output of a run is the one that the oracle expects, row by row. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Key = tuple[object, ...]
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Numbers of rows.

    Args:
        lost: expected keys that did not come out.
        doubled: surplus rows of a key that is expected once.
        unexpected: rows of a key that is not expected.
        wrong: expected keys whose values differ in one of their rows.
    """

    expected: int
    lost: int
    doubled: int
    unexpected: int
    wrong: int

    @property
    def exactly_once(self) -> bool:
        """Nothing lost, nothing doubled, nothing else."""
        return self.expected > 0 and not (self.lost or self.doubled or self.unexpected or self.wrong)


def verify(expected: Mapping[Key, Values], rows: Iterable[tuple[Key, Values]]) -> Verdict:
    """Compare each row that came out with the expected one of its key."""
    found: Counter[Key] = Counter()
    wrong = set()
    for key, values in rows:
        found[key] += 1
        if key in expected and expected[key] != values:
            wrong.add(key)
    return Verdict(
        expected=len(expected),
        lost=sum(key not in found for key in expected),
        doubled=sum(count - 1 for key, count in found.items() if key in expected),
        unexpected=sum(count for key, count in found.items() if key not in expected),
        wrong=len(wrong),
    )
