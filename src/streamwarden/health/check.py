"""Declaration of a check: its name, thresholds, what it reads and what to do. Docs and defaults come from it.

A check's module holds `check(window, thresholds) -> Verdict`, a pure function, and `CHECK`, its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from streamwarden.health.verdict import ALARMS, APPLIES, Status, Verdict
from streamwarden.health.window import Probed, Reading, Window
from streamwarden.lifecycle.queries import Part
from streamwarden.units import format_duration, parse_duration, parse_size, significant, size_unit

DIGITS: Final = 3
"""Significant digits of a value that is near no limit. A limit is shown with all digits that a person wrote."""
MOST_DIGITS: Final = 15
"""Significant digits that a number can hold."""
NEAR: Final = 0.01
"""Share of a limit within which a value is near it."""


class ValueUnit(StrEnum):
    """The unit of a value or a threshold, as written in a verdict."""

    BYTES = "bytes"
    SECONDS = "seconds"
    ROWS = "rows"
    TIMES = "times"  # a ratio to something the check names, or a count
    SHARE = "share"  # of 1

    def parse(self, text: str | float) -> float:
        """A number as people write it (`5 GB`, `10 ms`, `1 %`, 3). Raises ValueError, saying what is allowed.

        Durations are rounded to a nanosecond, so that `35 ms` and a measured 35 ms are the same number.
        """
        if self is ValueUnit.BYTES:
            return float(parse_size(text))
        if self is ValueUnit.SECONDS:
            return round(parse_duration(text), 9)
        allowed = "a number >= 0" + (" or a percentage such as 0.1 %" if self is ValueUnit.SHARE else "")
        if isinstance(text, bool):
            raise ValueError(f"{text!r} is not {allowed}")
        scale = 1.0
        if isinstance(text, str) and self is ValueUnit.SHARE and text.rstrip().endswith("%"):
            text, scale = text.rstrip()[:-1], 100.0
        try:
            number = float(text) / scale
        except ValueError as error:
            raise ValueError(f"{text!r} is not {allowed}") from error
        if not 0 <= number < float("inf"):
            raise ValueError(f"{text!r} is not {allowed}")
        return number

    def show(self, value: float) -> str:
        """`value` for a person: `1.23 GB`, `12.3 s`, `35 ms`, `0.5 %`, `1,235`."""
        return format_duration(value) if self is ValueUnit.SECONDS and value >= 60 else self._exactly(value, DIGITS)

    def show_limit(self, limit: float) -> str:
        """A limit for a person, with each of its digits: `1.234 GB`, `1m 30s`."""
        if self is ValueUnit.SECONDS and limit >= 60:
            return format_duration(limit)
        return self._exactly(limit, MOST_DIGITS)

    def show_beside(self, limits: Iterable[float], value: float) -> str:
        """`value` for a person who compares it with `limits`: with as many digits as one of these that is near needs.

        Just above a limit of 1, `1` would hide why there is an alarm: it is `1.0004`.
        """
        for limit in limits:
            if value == limit or abs(value - limit) > NEAR * limit:
                continue
            for digits in range(DIGITS, MOST_DIGITS + 1):
                if (text := self._exactly(value, digits)) != self._exactly(limit, digits):
                    return text
        return self.show(value)

    def _exactly(self, value: float, digits: int) -> str:
        """`value` with so many significant digits."""
        if self is ValueUnit.BYTES:
            size, suffix = size_unit(value)
            return f"{significant(value / size, digits)} {suffix}"
        if self is ValueUnit.SECONDS:
            return f"{significant(value * 1000, digits)} ms" if value < 1 else f"{significant(value, digits)} s"
        return f"{significant(value * 100, digits)} %" if self is ValueUnit.SHARE else significant(value, digits)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that can be set in `config/thresholds.yaml` and in a stream's `health.thresholds`."""

    name: str
    default: float
    unit: ValueUnit
    meaning: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Values of all thresholds in force: check -> threshold -> number, in the threshold's unit. Always complete."""

    values: Mapping[str, Mapping[str, float]]

    def of(self, check: str) -> Mapping[str, float]:
        return self.values[check]

    def with_overrides(self, overrides: Mapping[str, Mapping[str, float]]) -> Thresholds:
        """These thresholds, overridden by a stream's own; `overrides` were validated when they were read."""
        if not overrides:
            return self
        return Thresholds({name: {**known, **overrides.get(name, {})} for name, known in self.values.items()})


QUERIES: Final = frozenset({Part.WHOLE, Part.QUERY})
"""For what a query does: the check judges each query."""

DRIVERS: Final = frozenset({Part.WHOLE, Part.DRIVER})
"""For what the driver does: the check judges it once, for any number of queries."""

AMONG_OTHERS: Final = frozenset({Part.QUERY})
"""For what can only happen to one of several queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The declaration of one check.

    Args:
        target: the good range, as text.
        thresholds: those named `warning` and `critical` are the two limits; others are the check's settings.
        judges: the parts of a stream that it judges: for a stream with several queries, each query or the driver.
        readings: what it alone reads of the checkpoint: `window[READING]` is what was found.
        probes: the fields of the window that it reads and that are read outside the store.
        more_is_worse: False if small values alarm (time left); the limits are then mirrored.
        reads: which fields of the progress report, logs or measurements, and how sums over tasks became wall time.
        unknown: when the verdict is UNKNOWN.
        advice: what an operator does about WARNING and CRITICAL.
        source: the origin of limits and formula.
        consequence_of: the checks and other problems (`health.check_relations`) that may cause an alarm of this one.
        while_running: the value describes the batches of a running stream, so it raises no alarm while none runs.
        essential: while it has no data, the health of the stream is UNKNOWN (see `health.shown_verdicts.overall`).
        raise_after: for a value that is measured once by each evaluation, how many of the five newest must reach a
            status that it is raised to (see `steady`); None: the value is a time that only grows, or the check
            settles the batches or samples that it judges.
        rests: what it judges changes slowly, and costs much to read: see `health.resting`.
    """

    name: str
    title: str
    unit: ValueUnit
    target: str
    thresholds: tuple[Threshold, ...]
    judge: Callable[[Window, Thresholds], Verdict] = field(repr=False)
    reads: str
    unknown: str
    advice: str
    source: str
    readings: tuple[Reading[Any], ...] = ()
    probes: frozenset[Probed] = frozenset()
    more_is_worse: bool = True
    judges: frozenset[Part] = QUERIES
    consequence_of: tuple[str, ...] = ()
    while_running: bool = False
    essential: bool = False
    raise_after: int | None = None
    rests: bool = False

    def grade(self, value: float, limits: Mapping[str, float]) -> Status:
        """OK below `warning`; WARNING from `warning` to `critical`, both included; CRITICAL beyond `critical`."""
        return self.grader(limits)(value)

    def grader(self, limits: Mapping[str, float]) -> Callable[[float], Status]:
        """`grade` for many values."""
        sign = 1.0 if self.more_is_worse else -1.0
        warning, critical = sign * limits["warning"], sign * limits["critical"]

        def grade(value: float) -> Status:
            value *= sign
            if value > critical:
                return Status.CRITICAL
            return Status.WARNING if value >= warning else Status.OK

        return grade

    def verdict(
        self,
        window: Window,
        status: Status,
        reason: str,
        value: float | None = None,
        evidence: Mapping[str, object] | None = None,
        advice: str | None = None,
    ) -> Verdict:
        """The verdict with this check's name, unit and advice; `advice`: in place of the check's, for one cause."""
        return Verdict(
            stream=window.spec.name,
            check=self.name,
            status=status,
            at=window.now,
            value=value,
            unit=self.unit.value,
            reason=reason,
            advice=(self.advice if advice is None else advice) if status in ALARMS else "",
            evidence=evidence or {},
        )

    def not_applicable(self, window: Window, reason: str, value: float | None = None) -> Verdict:
        """OK, because there is nothing of this stream that the check could judge. reason: why not."""
        return self.verdict(window, Status.OK, reason, value, {APPLIES: False})

    def shown(self, value: float, limits: Mapping[str, float]) -> str:
        """`value` for a person, with enough digits beside these limits."""
        return self.unit.show_beside((limits["warning"], limits["critical"]), value)

    def limits_text(self, limits: Mapping[str, float]) -> str:
        """`warning from 1 GB, critical above 5 GB`."""
        return _limits_text(self.thresholds[0].unit, self.more_is_worse, limits["warning"], limits["critical"])


@lru_cache(maxsize=1024)
def _limits_text(unit: ValueUnit, more_is_worse: bool, warning: float, critical: float) -> str:
    start, side = ("from", "above") if more_is_worse else ("at", "below")
    return f"warning {start} {unit.show_limit(warning)}, critical {side} {unit.show_limit(critical)}"


def limits(warning: float, critical: float, unit: ValueUnit, what: str) -> tuple[Threshold, Threshold]:
    """The two limits that every check has."""
    return (
        Threshold("warning", warning, unit, f"WARNING from here on: {what}"),
        Threshold("critical", critical, unit, f"CRITICAL beyond: {what}"),
    )
