"""What became of malformed rows: a sample of those in the quarantine, and the batches whose rows it will never have."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent

_LONGEST: Final = 300
"""Characters of an example."""

_SIZE: Final = re.compile(r"\b[0-9]+ (?=bytes, )")
"""The size of a text, in a reason."""


def mark_of(query_id: str) -> str:
    """The name of the file in a quarantine that says up to which batch a query's rows are in it."""
    return f"_done-{query_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineSample:
    """Rows of one batch in the quarantine.

    Args:
        reasons: why they could not be used -> how many, the commonest first.
        example: one of the commonest, as it stood in the input.
    """

    batch: int
    rows: int
    reasons: Mapping[str, int]
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineGap:
    """Batches (`first` to `last`) whose malformed rows are not in the quarantine and never will be.

    Args:
        at: when the driver reported it, Unix seconds.
        rows: how many they are; None if no report of these batches is known.
    """

    query_id: str
    first: int
    last: int
    at: float
    reason: str = ""
    rows: int | None = None


def sample_of(batch: int, lines: Iterable[str]) -> QuarantineSample | None:
    """The sample in these lines of a batch's quarantine; None if there are none."""
    rows = [row for row in map(_decoded, lines) if row is not None]
    if not rows:
        return None
    kinds = [kind_of(str(row.get("reason", ""))) for row in rows]
    reasons = Counter(kinds).most_common()
    example = rows[kinds.index(reasons[0][0])]
    shown = str(example.get("raw") or example.get("parsed") or "")[:_LONGEST]
    return QuarantineSample(batch=batch, rows=len(rows), reasons=dict(reasons), example=shown)


def kind_of(reason: str) -> str:
    """A row's reason without its value: `amount is not of type int: 12.5` -> `amount is not of type int`."""
    return "; ".join(map(_without_value, reason.split("; ")))


def _without_value(part: str) -> str:
    """A value stands behind the last colon."""
    kind, colon, _ = part.rpartition(": ")
    return _SIZE.sub("", kind if colon else part)


def gaps_of(events: Sequence[DriverEvent]) -> list[QuarantineGap]:
    """The gaps that these events of the kind `quarantine_gap` report, each batch in one of them: several drivers may
    report the same batches."""
    gaps: list[QuarantineGap] = []
    for gap in sorted(map(_gap, events), key=lambda gap: (gap.query_id, gap.first, gap.last)):
        counted = gaps[-1].last if gaps and gaps[-1].query_id == gap.query_id else -1
        if gap.last > counted:
            gaps.append(replace(gap, first=max(gap.first, counted + 1)))
    return gaps


def _gap(event: DriverEvent) -> QuarantineGap:
    detail = event.detail
    return QuarantineGap(
        query_id=detail["query_id"],
        first=int(detail["first"]),
        last=int(detail["last"]),
        at=event.at,
        reason=detail.get("reason", ""),
    )


def _decoded(line: str) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except ValueError:  # the last line of a file that is read in part
        return None
    return row if isinstance(row, dict) else None
