"""Streams in the same trouble, streams that never ran, and equal incidents, as one line each. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from zlib import crc32

from streamwarden.airflow.web.words.badge import Badge, Tone, badge
from streamwarden.airflow.web.words.reason import Reason, follows, reason
from streamwarden.health.incidents.consequences import IncidentGroup
from streamwarden.lifecycle.queries import owner
from streamwarden.services.overview.rows import StreamRow

FEW: Final = 3
"""Fewer rows than this are not folded."""
NEVER_RAN: Final = "new"
"""Name of the fold of streams that never ran."""

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class IncidentFold:
    """Open incidents of the same check with the same status and reason, as one line. `name`: as that of `Fold`."""

    name: str
    is_open: bool
    groups: Sequence[IncidentGroup]

    @property
    def first(self) -> IncidentGroup:
        return self.groups[0]

    @property
    def opened_at(self) -> float:
        """When the oldest was opened, Unix seconds."""
        return min(group.root.opened_at for group in self.groups)

    @property
    def judged_at(self) -> float:
        """The oldest of the times at which the incidents were last judged, Unix seconds."""
        return min(group.root.updated_at for group in self.groups)


def folded(rows: Sequence[StreamRow], opened: Collection[str]) -> list[Fold | StreamRow]:
    """The rows in their order; where several say the same, one fold in the place of the first, and below it its rows
    if its name is in `opened`. A stream of several queries stays as it is."""
    families = Counter(owner(row.stream) for row in rows)
    names = ["" if families[owner(row.stream)] > 1 else _fold_of(row) for row in rows]
    return list(_unfolded(_gathered(rows, names), opened))


def folded_incidents(groups: Sequence[IncidentGroup], opened: Collection[str]) -> list[IncidentFold | IncidentGroup]:
    """The same of incidents. Those that are resolved stay as they are."""
    lines: list[IncidentFold | IncidentGroup] = []
    for name, same in _gathered(groups, [_fold_of_incident(group) for group in groups]):
        if name:
            lines.append(IncidentFold(name, name in opened, same))
        if not name or name in opened:
            lines += same
    return lines


def _gathered(items: Sequence[T], names: Sequence[str]) -> Iterator[tuple[str, list[T]]]:
    """The items in their order. Items that share a name stand together in the place of the first; any other stands
    alone, under an empty name."""
    several = {name for name, count in Counter(names).items() if name and count >= FEW}
    together: dict[str, list[T]] = {}
    for item, name in zip(items, names, strict=True):
        if name in several:
            together.setdefault(name, []).append(item)
    for item, name in zip(items, names, strict=True):
        if name not in several:
            yield "", [item]
        elif name in together:
            yield name, together.pop(name)


def _unfolded(gathered: Iterable[tuple[str, list[StreamRow]]], opened: Collection[str]) -> Iterator[Fold | StreamRow]:
    for name, rows in gathered:
        if name:
            yield Fold(name, badge(rows[0]), reason(rows[0]), follows(rows[0]), name in opened, rows)
        if not name or name in opened:
            yield from rows


def _fold_of(row: StreamRow) -> str:
    """The name of the fold that the row would be in; empty: it stays on its own."""
    if row.state == "new":
        return NEVER_RAN
    shown, why = badge(row), reason(row)
    if why is None or shown.tone not in (Tone.WARNING, Tone.CRITICAL):
        return ""
    return f"{shown.word}-{crc32('|'.join((why.text, why.place, follows(row))).encode()):08x}"


def _fold_of_incident(group: IncidentGroup) -> str:
    root = group.root
    if root.resolved_at is not None:
        return ""
    return f"{root.check}-{crc32(f'{group.status}|{root.reason}'.encode()):08x}"
