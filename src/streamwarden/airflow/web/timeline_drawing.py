"""Where the moments of a drill stand in a drawing. Pure; the template draws it as SVG.

The moments stand on one line, to scale with two exceptions, which the page names: neighbours are at least `NEAREST`
apart, and waits that are much longer than everything else are cut. Each label stands below its moment, to the right of
a thin line down to it. An earlier label hangs lower than the later ones that it would run into, like a staircase, so
that no label overlaps another one and no line crosses a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streamwarden.drills.reporting.report import distance
from streamwarden.drills.reporting.timeline import Moment, Phase
from streamwarden.redaction import redacted_text

WIDTH: Final = 1000.0
"""Of the drawing, in its own units, which are pixels unless the page is narrower."""
NEAREST: Final = 10.0
"""Least distance of two neighbours on the line."""
LONG: Final = 4.0
PATIENCE: Final = 120.0
"""A wait of more than PATIENCE seconds that is longer than LONG times all shorter ones together is cut, and drawn as
long as those."""

AXIS: Final = 14.0
"""Where the line is, from the top."""
FIRST: Final = 44.0
"""The baseline of the highest labels."""
STEP: Final = 20.0
"""From one baseline to the next."""
LETTER: Final = 7.0
"""Width that a letter of 12 pixels takes at most, on the average of a label."""
GAP: Final = 8.0
"""Between a line and its label, and between a label and the next line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment on the line at `x`, with its label on the baseline `y`."""

    x: float
    y: float
    label: str
    title: str
    phase: Phase | None

    @property
    def left(self) -> float:
        """Where the label begins."""
        return self.x + GAP / 2

    @property
    def right(self) -> float:
        """Where the label ends at the latest, with the room after it."""
        return self.left + _width(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of the line, in one phase of the stream. `cut`: it is drawn shorter than it was."""

    left: float
    right: float
    phase: Phase
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The drawing of a drill."""

    height: float
    marks: tuple[Mark, ...]
    spans: tuple[Span, ...]

    @property
    def cut(self) -> bool:
        """Whether a wait was cut."""
        return any(span.cut for span in self.spans)


def course(moments: Sequence[Moment], width: float = WIDTH) -> Course | None:
    """The drawing of the moments that have a label; None for fewer than two."""
    drawn = [each for each in moments if each.label]
    if len(drawn) < 2:
        return None
    labels = [f"{distance(each)} {each.label}".strip() for each in drawn]
    gaps = [max(0.0, after.at - before.at) for before, after in pairwise(drawn)]
    shown = _cut(gaps)
    places = _places(shown, labels, width)
    levels = _levels(places, labels)
    marks = tuple(
        Mark(x=x, y=FIRST + STEP * level, label=label, title=redacted_text(each.text), phase=each.phase)
        for each, x, level, label in zip(drawn, places, levels, labels, strict=True)
    )
    cuts = [short < gap for short, gap in zip(shown, gaps, strict=True)]
    return Course(height=FIRST + STEP * max(levels) + GAP, marks=marks, spans=_spans(marks, cuts))


def _width(label: str) -> float:
    return LETTER * len(label) + GAP


def _cut(gaps: Sequence[float]) -> list[float]:
    """The gaps as they are drawn: a long wait as long as everything that is no long wait."""
    rest = 0.0
    for gap in sorted(gaps):
        if gap > PATIENCE and 0 < LONG * rest < gap:  # so is every longer one
            return [min(each, rest) if each >= gap else each for each in gaps]
        rest += gap
    return list(gaps)


def _places(gaps: Sequence[float], labels: Sequence[str], width: float) -> list[float]:
    """The place of each moment. The line is as long as it can be with every label inside the drawing."""
    wide, narrow = width, NEAREST * len(gaps)
    places = _along(gaps, wide)
    for _ in range(40):  # halving finds the longest line to a fraction of a unit
        middle = (wide + narrow) / 2
        fits = _fits(_along(gaps, middle), labels, width)
        narrow, wide = (middle, wide) if fits else (narrow, middle)
        places = _along(gaps, narrow)
    return places


def _fits(places: Sequence[float], labels: Sequence[str], width: float) -> bool:
    return all(GAP / 2 + x + _width(label) <= width for x, label in zip(places, labels, strict=True))


def _along(gaps: Sequence[float], length: float) -> list[float]:
    """The places on a line of this length, from `GAP` on: in proportion to the gaps, but never closer than NEAREST."""
    small: set[int] = {number for number, gap in enumerate(gaps) if gap <= 0}
    scale = 0.0
    while len(small) < len(gaps):
        rest = sum(gap for number, gap in enumerate(gaps) if number not in small)
        scale = max(0.0, length - NEAREST * len(small)) / rest
        closer = {number for number, gap in enumerate(gaps) if gap * scale < NEAREST} - small
        if not closer:
            break
        small |= closer
    places = [GAP]
    for number, gap in enumerate(gaps):
        places.append(places[-1] + (NEAREST if number in small else gap * scale))
    return places


def _levels(places: Sequence[float], labels: Sequence[str]) -> list[int]:
    """How far down each label hangs: below every later one whose line it would meet."""
    levels: list[int] = []
    for number in range(len(places) - 1, -1, -1):
        end = places[number] + GAP / 2 + _width(labels[number])
        met = [level for x, level in zip(places[number + 1 :], levels, strict=True) if x < end]
        levels.insert(0, max(met, default=-1) + 1)
    return levels


def _spans(marks: Sequence[Mark], cuts: Sequence[bool]) -> tuple[Span, ...]:
    spans, phase = [], Phase.UP
    for (before, after), cut in zip(pairwise(marks), cuts, strict=True):
        phase = before.phase or phase
        spans.append(Span(left=before.x, right=after.x, phase=phase, cut=cut))
    return tuple(spans)
