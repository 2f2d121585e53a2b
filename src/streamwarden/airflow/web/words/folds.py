"""Streams in the same trouble, and those that never ran, as one line each. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from streamwarden.airflow.web.words.badge import Badge, Tone, badge
from streamwarden.airflow.web.words.reason import Reason, follows, reason
from streamwarden.lifecycle.queries import owner
from streamwarden.services.overview.rows import StreamRow

FEW: Final = 3
"""Fewer rows than this are not folded."""
NEVER_RAN: Final = "new"
"""Name of the fold of streams that never ran."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that say the same, as one line.

    Args:
        name: in the address of a page on which it is unfolded.
        reason: None for streams that never ran.
        follows: what becomes of them, in few words, or empty.
    """

    name: str
    badge: Badge
    reason: Reason | None
    follows: str = ""
    is_open: bool = False
    rows: list[StreamRow] = field(default_factory=list)

    @property
    def incidents(self) -> int:
        return sum(row.open_incidents for row in self.rows)


def folded(rows: Sequence[StreamRow], opened: Collection[str]) -> list[Fold | StreamRow]:
    """The rows in their order; where several say the same, one fold in the place of the first, and below it its rows
    if its name is in `opened`. A stream of several queries stays as it is."""
    names = [_fold_of(row) for row in rows]
    families = Counter(owner(row.stream) for row in rows)
    several = {name for name, count in Counter(_alone(rows, names, families)).items() if name and count >= FEW}
    lines: list[Fold | StreamRow] = []
    folds: dict[str, Fold] = {}
    for row, name in zip(rows, names, strict=True):
        if name not in several or families[owner(row.stream)] > 1:
            lines.append(row)
            continue
        if name not in folds:
            folds[name] = Fold(name, badge(row), reason(row), follows(row), name in opened)
            lines.append(folds[name])
        folds[name].rows.append(row)
    return list(_unfolded(lines))


def _alone(rows: Sequence[StreamRow], names: Sequence[str], families: Counter[str]) -> Iterable[str]:
    return (name for row, name in zip(rows, names, strict=True) if families[owner(row.stream)] == 1)


def _fold_of(row: StreamRow) -> str:
    """The name of the fold that the row would be in; empty: it stays on its own."""
    if row.state == "new":
        return NEVER_RAN
    shown, why = badge(row), reason(row)
    if why is None or shown.tone not in (Tone.WARNING, Tone.CRITICAL):
        return ""
    return f"{shown.word}-{crc32('|'.join((why.text, why.place, follows(row))).encode()):08x}"


def _unfolded(lines: Iterable[Fold | StreamRow]) -> Iterable[Fold | StreamRow]:
    for line in lines:
        yield line
        if isinstance(line, Fold) and line.is_open:
            yield from line.rows
