"""What a stream wrote, as each kind of sink reads it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamwarden.verification.column_types import ColumnType


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files that a sink of files vouches for.

    Args:
        newest: newest batch with an entry; None if there is none.
        files: data files, local paths or URLs, in the order in which they were added.
        gaps: batches that must have an entry and have none that can be read.
        missing: files that an entry names and that are not there.
    """

    newest: int | None
    files: tuple[str, ...]
    gaps: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Every row of a stream's output, and what is wrong with the place that holds it.

    Args:
        columns: names of a row's values, in order. Timestamps are aware datetimes in UTC.
        manifest: None for a place that has no manifest: then everything in it was read.
        orphans: data files that no manifest entry names: remains of batches that were cut, not counted.
        problems: gaps and missing files, in words; an exactly-once output has none.
        repeated: rows that a sink that is at-least-once wrote again, not counted; None: the sink repeats none.
        notes: what else a reader of the journal may want to know.
        types: column -> each type that it has in the output; files, or records of a topic, may differ. A column that is
            not here can be of any.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]] = field(repr=False)
    manifest: Manifest | None = None
    files: int = 0
    orphans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    repeated: int | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, Sequence[ColumnType]] = field(default_factory=dict)

    @property
    def all_types(self) -> dict[str, Sequence[ColumnType]]:
        """Every column with its types, the ones without a known type too."""
        return {name: self.types.get(name, ()) for name in self.columns}

    def keyed(self, keys: Sequence[str], values: Sequence[str]) -> list[tuple[tuple[object, ...], tuple[object, ...]]]:
        """The rows as (key, values). A column that is not there is null in each row."""
        if not self.rows:
            return []
        at = {name: index for index, name in enumerate(self.columns)}

        def taken(row: tuple[object, ...], names: Sequence[str]) -> tuple[object, ...]:
            return tuple([row[at[name]] if name in at else None for name in names])

        return [(taken(row, keys), taken(row, values)) for row in self.rows]
