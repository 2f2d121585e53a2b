"""Reconciliation: expected rows against actual rows, by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Key = tuple[object, ...]
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The outcome, in rows. Exactly-once holds when lost, duplicated, unexpected and wrong are all 0.

    Args:
        expected: rows that the oracle expects; actual: rows that a reader of the sink sees.
        lost: expected keys that are missing.
        duplicated: surplus rows of keys that are expected once.
        unexpected: rows whose key is not expected at all.
        wrong: rows whose key is right and whose values are not.
        records: input records that the expectation was computed from.
        samples: kind -> a few of the rows concerned, as text.
        notes: what else the verifier saw: gaps of the manifest, late rows dropped, …
    """

    expected: int
    actual: int
    lost: int
    duplicated: int
    unexpected: int
    wrong: int
    records: int = 0
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def exactly_once(self) -> bool:
        return self.expected > 0 and not (self.lost or self.duplicated or self.unexpected or self.wrong)
