"""The balance that an audit checks: state before + input = output + state after.

For the batches after M up to N of a query: state after M + input = output + state after N, for each entry (a group with
its window) and each amount (a count or a sum of its output). Input are the rows that were not late: a row of batch b is
late if its window ended at or before the watermark of batch b - 1. The counts alone would miss two groups whose values
were swapped, therefore each amount has to balance in each entry.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Self

BEFORE: Final = ("opening", "input")
"""State after M, and the input that was not late."""
AFTER: Final = ("output", "closing")
"""The output, and the state after N."""
DROPPED: Final = "dropped"
"""The input that was late. It is counted, and it is on neither side of the law."""
GROUPS: Final = "groups"
"""Not an amount: whether the entry is there. An entry is in the output once or in the state once, never in both."""
FRACTION: Final = 1e-6
"""Relative difference up to which two sums of FLOAT or DOUBLE are equal: they depend on the order of the addition."""
ROUNDING: Final = 1e-9
"""The same for a sum of DOUBLE, relative to the sum of the absolute values: where values cancel each other, the sum is
far smaller than the error of the addition. Ten million additions have an error of at most 1.1e-9 of it."""

Amount = int | float | Decimal
Sides = Mapping[str, Mapping[str, Amount | None]]


class Outcome(StrEnum):
    BALANCED = "balanced"
    UNBALANCED = "not balanced"
    UNDECIDED = "not audited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The batches that an audit covers: those after `after` up to `upto`. `after` is -1 for a query's first batch."""

    after: int
    upto: int

    @property
    def batches(self) -> range:
        return range(self.after + 1, self.upto + 1)

    def __contains__(self, other: "Range") -> bool:
        return self.after <= other.after and other.upto <= self.upto

    def __str__(self) -> str:
        return f"batch {self.upto}" if len(self.batches) == 1 else f"batches {self.after + 1} to {self.upto}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that does not balance.

    Args:
        key: column -> value, as text.
        sides: side -> amount -> number.
        end_ms: its end, Unix milliseconds, which the watermark has to pass; None: it has none.
        batch: the batch that has to write it: the first one whose watermark passed its end. None: none has to yet, or
            the watermark does not decide it.
        read_by: the first and the last batch that read rows of the entry; None: none did, or it is unknown.
        exclusive, slack: see `differences`.
    """

    key: Mapping[str, Any]
    sides: Sides
    end_ms: int | None = None
    batch: int | None = None
    read_by: Range | None = None
    exclusive: bool = True
    slack: Mapping[str, float] = field(default_factory=dict)

    @property
    def differences(self) -> dict[str, Amount]:
        return differences(self.sides, self.slack, exclusive=self.exclusive)

    def __str__(self) -> str:
        named = ", ".join(f"{name} {value}" for name, value in self.key.items()) or "the one group"
        parts = []
        for name, by in self.differences.items():
            if name == GROUPS:
                parts.append("the group is missing" if by > 0 else "the group is there too often")
            elif not by:
                missing = _sum(self.sides, AFTER, name) is None
                parts.append(f"{name} is NULL instead of 0" if missing else f"{name} is 0 instead of NULL")
            else:
                parts.append(f"{name} {-by:+,}")
        return f"{named}{self._where}: {', '.join(parts)}"

    @property
    def batches(self) -> Sequence[int]:
        """The batch that has to write it; where the watermark does not decide that, those that read its rows."""
        if self.batch is not None:
            return (self.batch,)
        return () if self.read_by is None else self.read_by.batches

    @property
    def _where(self) -> str:
        if self.batch is not None:
            return f" (batch {self.batch})"
        return "" if self.read_by is None else f" (read by {self.read_by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The two sides of a query's books, compared.

    Args:
        unit: what `counts` counts.
        operator: what keeps the state, in words.
        amounts: output columns that were balanced; counts: the one of them that counts input rows.
        left_out: output column -> why it was not balanced.
        entries: groups that were compared; unbalanced: those that do not balance; worst: some of them; unsure: those
            that cannot be judged, because Spark does not define which of their rows it takes.
        read: input rows, of an operator that neither writes nor keeps each row; None: the totals show them.
        totals: side -> amount -> sum over all entries.
    """

    operator: str = ""
    amounts: Sequence[str] = ()
    counts: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    entries: int = 0
    unbalanced: int = 0
    worst: Sequence[Entry] = ()
    unsure: int = 0
    read: int | None = None
    unit: str = "rows"
    totals: Sides = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result file of the process that reads the books, for the process that asked.

    Args:
        problems: data files of the output that cannot be read.
        impossible: why nothing was balanced; failed: what the job or Spark raised.
    """

    books: Books = field(default_factory=Books)
    problems: tuple[str, ...] = ()
    impossible: str | None = None
    failed: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)  # a DECIMAL becomes text

    @classmethod
    def of_json(cls, text: str) -> Self:
        raw = json.loads(text)
        books, problems = raw.pop("books"), tuple(raw.pop("problems"))
        worst = tuple(
            Entry(**{**entry, "sides": _numbers(entry["sides"]), "read_by": read_by and Range(**read_by)})
            for entry in books["worst"]
            for read_by in [entry["read_by"]]
        )
        return cls(
            books=Books(
                **{**books, "amounts": tuple(books["amounts"]), "worst": worst, "totals": _numbers(books["totals"])}
            ),
            problems=problems,
            **raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Books):
    """The result of an audit.

    Args:
        stream: its name.
        range: the audited batches; None if there are none.
        problems: deviations that the logs show by themselves, and data files that cannot be read.
        notes: what the input shows, and what explains books that do not balance.
        impossible: why nothing was balanced.
    """

    stream: str
    range: Range | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: str | None = None

    @property
    def outcome(self) -> Outcome:
        if self.unbalanced or self.problems:
            return Outcome.UNBALANCED
        nothing = self.unsure > 0 and self.unsure == self.entries
        return Outcome.UNDECIDED if self.impossible or nothing else Outcome.BALANCED

    @property
    def batches(self) -> list[int]:
        """The batches of the named entries that do not balance: see `Entry.batches`."""
        return sorted({batch for entry in self.worst for batch in entry.batches})

    @property
    def sentence(self) -> str:
        """The outcome in one sentence, and what it does not say anything about."""
        if self.outcome is Outcome.UNDECIDED:
            reason = self.impossible or "Spark does not define which rows of any of its keys are written"
            return f"the audit of {self.stream} cannot balance its books: {reason}"
        if self.outcome is Outcome.UNBALANCED:
            causes = list(self.problems[:1])
            if self.unbalanced:
                causes.append(f"{self.unbalanced:,} of {self.entries:,} groups do not balance; {self.worst[0]}")
            said = "; ".join([*causes, *self.notes])
            return f"the books of {self.stream} do not balance over {self.range}: {said}{self._not_compared}"
        return f"the books of {self.stream} balance over {self.range}: {self.equation}{self._not_compared}"

    @property
    def _not_compared(self) -> str:
        left_out = [f"{name} ({why})" for name, why in self.left_out.items()]
        if self.unsure:
            left_out.append(f"{self.unsure:,} of {self.entries:,} groups")
        return f"; not compared: {', '.join(left_out)}" if left_out else ""

    @property
    def equation(self) -> str:
        """The totals: of the rows if the output counts them, otherwise of the groups and the first sum."""
        name = self.counts or (self.amounts[0] if self.amounts else GROUPS)
        unit = self.unit if self.counts else name

        def of(side: str) -> str:
            return f"{self.totals.get(side, {}).get(name) or 0:,}"

        if self.read is not None:
            totals = [self.totals.get(side, {}).get(name) or 0 for side in ("input", DROPPED)]
            return (
                f"{self.read:,} {unit} in = {of('output')} in the output + {self.read - sum(totals):,} repeated + "
                f"{of(DROPPED)} dropped as late"
            )
        opening = f"{of('opening')} in the state before + " if "opening" in self.totals else ""
        return (
            f"{opening}{of('input')} {unit} in = {of('output')} in the output + {of('closing')} in the state; "
            f"{of(DROPPED)} dropped as late"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            "after": self.range.after if self.range else None,
            "upto": self.range.upto if self.range else None,
            "operator": self.operator,
            "balanced_columns": list(self.amounts),
            "counts_rows": self.counts,
            "not_balanced_columns": dict(self.left_out),
            "entries": self.entries,
            "unbalanced": self.unbalanced,
            "not_judged": self.unsure,
            "rows_read": self.read,
            "batches": self.batches,
            "worst": [
                {
                    "key": dict(entry.key),
                    "batch": entry.batch,
                    "read_by": None if entry.read_by is None else [entry.read_by.after + 1, entry.read_by.upto],
                    "differences": {name: _plain(by) for name, by in entry.differences.items()},
                    "sides": _plain_sides(entry.sides),
                }
                for entry in self.worst
            ],
            "totals": _plain_sides(self.totals),
            "problems": list(self.problems),
            "notes": list(self.notes),
            "impossible": self.impossible,
        }


def differences(sides: Sides, slack: Mapping[str, float] | None = None, *, exclusive: bool = True) -> dict[str, Amount]:
    """Amount -> what is missing after (negative: too much; 0: one of both is NULL), for each amount of one entry that
    does not balance.

    Args:
        slack: amount -> the difference that the order of the addition explains.
        exclusive: the entry is a group: it is there once, in the output or in the state.
    """
    names = dict.fromkeys(name for amounts in sides.values() for name in amounts if name != GROUPS)
    on_both = all(any(sides.get(side, {}).get(GROUPS) for side in half) for half in (BEFORE, AFTER))
    difference_of: dict[str, Amount] = {}
    for name in names:
        before, after = (_sum(sides, side, name) for side in (BEFORE, AFTER))
        one_is_null = on_both and (before is None) != (after is None)
        if one_is_null or not _equal(before or 0, after or 0, (slack or {}).get(name, 0.0)):
            difference_of[name] = (before or 0) - (after or 0)
    there = max(_sum(sides, (side,), GROUPS) or 0 for side in BEFORE) if exclusive else 0
    after = (_sum(sides, AFTER, GROUPS) or 0) if exclusive else 0
    return difference_of if there == after else {**difference_of, GROUPS: there - after}


def audited_range(
    offsets: Collection[int],
    commits: Collection[int],
    last: int | None = None,
    *,
    margin: int = 0,
    usable: Callable[[int], bool] = lambda batch: True,
) -> Range | None:
    """The batches to audit: up to the newest committed one, from the first one whose input and state are known.

    Args:
        offsets, commits: batches whose files are kept.
        last: audit at most so many batches.
        margin: if the logs no longer begin with batch 0, leave out so many of the oldest batches, because Spark purges
            them while the audit reads.
        usable: whether what was there after a batch is kept, so that the books may begin after it.
    """
    if not commits:
        return None
    upto = max(commits)
    first = first_of(offsets, upto)
    after = -1 if first == 0 else first + margin
    if last is not None:
        after = max(after, upto - last)
    while 0 <= after < upto and not usable(after):
        after += 1
    return Range(after=after, upto=upto) if after < upto else None


def first_of(batches: Collection[int], upto: int) -> int:
    """The first of the batches that lead up to `upto` without a gap."""
    first = upto
    while first - 1 in batches:
        first -= 1
    return first


def writing_batch(end_ms: int | None, marks: Mapping[int, int], batches: range) -> int | None:
    """The first of `batches` whose watermark passed `end_ms`: it has to write the window.

    Args:
        marks: batch -> watermark, Unix milliseconds.
    """
    if end_ms is None:
        return None
    return next((batch for batch in batches if marks.get(batch, 0) >= end_ms), None)


def _sum(sides: Sides, names: Sequence[str], amount: str) -> Any:
    """A sum of numbers of one type: those of an amount are all whole, all decimal, or all floating. None: as in SQL, no
    side has a number."""
    values = [value for name in names if (value := sides.get(name, {}).get(amount)) is not None]
    return sum(values) if values else None


def _equal(one: Amount, other: Amount, slack: float) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=FRACTION, abs_tol=slack)
    return one == other


def _numbers(sides: Mapping[str, Mapping[str, Any]]) -> Sides:
    return {
        side: {name: Decimal(value) if isinstance(value, str) else value for name, value in amounts.items()}
        for side, amounts in sides.items()
    }


def _plain(value: Amount | None) -> int | float | str | None:
    return str(value) if isinstance(value, Decimal) else value


def _plain_sides(sides: Sides) -> dict[str, dict[str, int | float | str | None]]:
    return {side: {name: _plain(value) for name, value in amounts.items()} for side, amounts in sides.items()}
