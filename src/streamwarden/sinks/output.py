"""The output of a stream, as each kind of sink reads it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamwarden.sinks.columns import table_of, values_of
from streamwarden.verification.comparing.column_types import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[object, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Rows that have the same columns and types: those of one file, or some of a table or a topic.

    Args:
        table: the columns that these rows have; see `sinks.columns`.
        count: number of rows, also if they have no column.
        file: the data file that they are in; None if the sink has no files.
        batches: the batch that wrote each row, if the sink stores it with the row.
    """

    table: pa.Table = field(repr=False)
    count: int
    file: str | None = None
    batches: pa.Array | None = field(default=None, repr=False)

    def rows(self, columns: Sequence[str]) -> list[Row]:
        """The rows as Python values. A column that is not there is null in each."""
        if not columns:
            return [()] * self.count
        nulls: list[object] = [None] * self.count
        names = set(self.table.column_names)
        return list(
            zip(*(values_of(self.table, column) if column in names else nulls for column in columns), strict=True)
        )

    def row(self, at: int, columns: Sequence[str]) -> Row:
        """One row."""
        return Part(table=self.table.slice(at, 1), count=1).rows(columns)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The data files that a range of batches wrote, for Spark to read.

    Args:
        uris: of the files; options: of Spark's reader; format: Spark's name of theirs, if it is not that of the sink.
        problems: gaps and missing files, in words.
    """

    uris: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Every row of a stream's output, and the problems of the place that holds it.

    Args:
        columns: names of a row's values, in order. Timestamps are instants in UTC.
        parts: the rows, part by part, because files may differ in their columns and types.
        manifest: None for a place that has no manifest: then everything in it was read.
        orphans: data files that no manifest entry names: remains of batches that were cut, not counted.
        problems: gaps and missing files, in words; an exactly-once output has none.
        repeated: rows that a sink that is at-least-once wrote again, not counted; None: the sink repeats none.
        notes: what else a reader of the journal may want to know.
        types: column -> each type that it has in the output; files, or records of a topic, may differ. A column that is
            not here can be of any.
        file_batches: reads which batch wrote each file; called only if a sample needs it.
    """

    columns: tuple[str, ...]
    parts: Sequence[Part] = field(default=(), repr=False)
    manifest: Manifest | None = None
    files: int = 0
    orphans: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    repeated: int | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, Sequence[ColumnType]] = field(default_factory=dict)
    file_batches: Callable[[], Mapping[str, int]] = field(default=dict, repr=False)

    @classmethod
    def of_rows(cls, columns: Sequence[str], rows: Iterable[Row], **more: Any) -> Output:
        """An output from Python values, such as an oracle's; `more`: its other fields."""
        all_rows = list(rows)
        values = zip(*all_rows, strict=True) if all_rows else ((),) * len(columns)
        part = part_of(dict(zip(columns, values, strict=True)), len(all_rows))
        return cls(columns=tuple(columns), parts=[part], **more)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(part.count for part in self.parts)

    @property
    def all_types(self) -> dict[str, Sequence[ColumnType]]:
        """Every column with its types, the ones without a known type too."""
        return {name: self.types.get(name, ()) for name in self.columns}

    @property
    def rows(self) -> list[Row]:
        """Every row as Python values: for outputs that are known to be small."""
        return [row for part in self.parts for row in part.rows(self.columns)]

    def keyed(self, keys: Sequence[str], values: Sequence[str]) -> list[tuple[Row, Row]]:
        """The rows as (key, values), for small outputs. A column that is not there is null in each row."""
        rows = (row for part in self.parts for row in part.rows((*keys, *values)))
        return [(row[: len(keys)], row[len(keys) :]) for row in rows]

    def without_nulls_of(self, column: str) -> Output:
        """This output without a column that has nothing but nulls; the same output if it has a value, or there is no
        such column."""
        parts = [part for part in self.parts if column in part.table.column_names]
        if column not in self.columns or any(part.table[column].null_count < part.count for part in parts):
            return self
        return replace(
            self,
            columns=tuple(name for name in self.columns if name != column),
            parts=[_without(part, column) for part in self.parts],
            types={name: types for name, types in self.types.items() if name != column},
            notes={**self.notes, "only_nulls": column},
        )

    def locate(self, row: int) -> tuple[Part, int]:
        """The part that holds the row with this number, and the row's place in it."""
        for part in self.parts:
            if row < part.count:
                return part, row
            row -= part.count
        raise IndexError(f"the output has {self.count} rows")


def part_of(columns: Mapping[str, Sequence[object]], count: int, batches: Sequence[int | None] | None = None) -> Part:
    """Rows from Python values, column by column.

    Args:
        batches: the batch that wrote each row, if the sink stores it.
    """
    import pyarrow as pa

    return Part(
        table=table_of(columns), count=count, batches=None if batches is None else pa.array(batches, pa.int64())
    )


def _without(part: Part, column: str) -> Part:
    names = [name for name in part.table.column_names if name != column]
    return replace(part, table=part.table.select(names))
