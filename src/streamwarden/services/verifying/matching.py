"""Matches the rows of two sides by key, with DuckDB: in bounded memory, on all cores, spilling to disk.

First both sides are summed up: each row has a hash over its compared columns, and a bucket by the hash of its key. A
bucket with the same number of rows and the same sum of hashes on both sides holds the same rows (another set of rows
has the same sum in one of 2^64 cases). Only the rows of the other buckets are joined, with their full values. So an
output that is right costs a pass over each side, and one in which a thousand rows deviate little more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from streamwarden.errors import VerificationError
from streamwarden.services.verifying.comparables import ROW, Comparables, comparables
from streamwarden.sinks.output import Output
from streamwarden.verification.reconciliation import Deviations
from streamwarden.verification.tolerance import Tolerance

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy as np

MEMORY: Final = "1500MB"
"""What DuckDB may use for itself; the rest goes to disk. The two sides are in memory besides."""

EXAMPLES: Final = 100
"""Rows of each kind that are named; all are counted."""

_BUCKETS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Pair:
    """A row by its numbers in the two outputs; None where it is missing."""

    expected: int | None = None
    actual: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches(Deviations):
    """Counts of deviating rows, and examples by kind."""

    examples: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


def match(
    sides: Comparables,
    keys: Sequence[str],
    values: Sequence[str],
    tolerances: Mapping[str, Tolerance],
    *,
    checked: bool = False,
) -> Matches:
    """Match by the columns `keys`, and compare the columns `values`.

    Args:
        checked: the caller has verified that expected keys are unique.

    Raises VerificationError if two expected rows have the same key.
    """
    import numpy as np

    key = [sides.columns[name] for name in keys]
    with _tables(sides) as session:
        if not checked:
            _require_key(session, key, keys)
        _find_deviating(session, key, [sides.columns[name] for name in values])
        same = [_same(sides, name, tolerances.get(name)) for name in values]
        pairs = session.execute(
            f"SELECT e.{ROW} AS expected, a.{ROW} AS actual, {' AND '.join(same) or 'TRUE'} AS same "  # noqa: S608
            f"FROM {_deviating('expected', key)} e FULL JOIN {_deviating('actual', key)} a ON {_equal(key)}"
        ).fetchnumpy()
    return _of_pairs(*(np.ma.asarray(pairs[name]) for name in ("expected", "actual", "same")))


def match_rows(sides: Comparables, names: Sequence[str]) -> Matches:
    """Match whole rows, as multisets: a row that is expected three times and came twice is one lost row, one that came
    four times is one duplicated row."""
    with _tables(sides) as session:
        columns = [sides.columns[name] for name in names]
        _find_deviating(session, columns, ())
        group = ", ".join(columns)
        groups = session.execute(
            f"SELECT sum(wanted) AS wanted, sum(came) AS came, min(expected) AS expected, max(actual) AS actual FROM ("  # noqa: S608
            f"SELECT {group}, 1 AS wanted, 0 AS came, {ROW} AS expected, NULL::BIGINT AS actual "
            f"FROM {_deviating('expected', columns)} e UNION ALL "
            f"SELECT {group}, 0, 1, NULL::BIGINT, {ROW} FROM {_deviating('actual', columns)} a) "
            f"GROUP BY {group} HAVING sum(wanted) <> sum(came)"
        ).fetchall()
    kinds = {
        "lost": [(wanted - came, Pair(expected=at)) for wanted, came, at, _ in groups if wanted > came],
        "duplicated": [(came - wanted, Pair(actual=at)) for wanted, came, _, at in groups if came > wanted > 0],
        "unexpected": [(came, Pair(actual=at)) for wanted, came, _, at in groups if wanted == 0],
    }
    examples = _examples(**{kind: [pair for _, pair in rows] for kind, rows in kinds.items()})
    return Matches(
        **{kind: sum(count for count, _ in rows) for kind, rows in kinds.items()}, wrong=0, examples=examples
    )


def distinct_keys(output: Output, keys: Sequence[str]) -> int:
    """Count of distinct values of the columns `keys` together. A missing column is null in each row."""
    sides = comparables(output, Output(columns=()), keys)
    columns = [sides.columns[name] for name in keys]
    with _tables(sides) as session:
        if _all_differ(session, columns):
            return output.count
        groups = f"SELECT 1 FROM expected GROUP BY {', '.join(columns)}"  # noqa: S608
        count: int = session.execute(f"SELECT count(*) FROM ({groups})").fetchall()[0][0]  # noqa: S608
        return count


def _all_differ(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> bool:
    """Whether no two expected rows have the same hash over these columns: then no two have the same values."""
    import numpy as np

    result = session.execute(f"SELECT {_hash(columns)} AS hash FROM expected").fetchnumpy()  # noqa: S608
    hashes = np.sort(np.asarray(result["hash"]))
    return not np.any(hashes[1:] == hashes[:-1])


def _require_key(session: duckdb.DuckDBPyConnection, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raises VerificationError if two expected rows have the same values in the columns of the key."""
    if _all_differ(session, columns):
        return
    groups = f"SELECT 1 FROM expected GROUP BY {', '.join(columns)} HAVING count(*) > 1"  # noqa: S608
    twice = session.execute(f"SELECT count(*) FROM ({groups})").fetchall()[0][0]  # noqa: S608
    if twice:
        raise VerificationError(
            f"{twice} values of the key ({', '.join(names)}) occur several times in the expected output",
            expected="a key that identifies a row",
            where="the key of the comparison",
            next_step="name more columns, or none: then whole rows are compared",
        )


@contextmanager
def _tables(sides: Comparables) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session that sees the two tables as `expected` and `actual`."""
    import duckdb

    with TemporaryDirectory(prefix="streamwarden-verify-") as scratch:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": scratch,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
        }
        with duckdb.connect(config=settings) as session:
            session.register("expected", sides.expected)
            session.register("actual", sides.actual)
            yield session


def _find_deviating(session: duckdb.DuckDBPyConnection, keys: Sequence[str], values: Sequence[str]) -> None:
    """Make the table `deviating`: the buckets that do not hold the same rows on both sides."""

    def summed(side: str) -> str:
        hashes = ", ".join((f"{_hash(keys)} AS key", *values))
        return (
            f"SELECT key % {_BUCKETS} AS bucket, count(*) AS rows, sum({_hash(['key', *values])}) AS digest "  # noqa: S608
            f"FROM (SELECT {hashes} FROM {side}) GROUP BY ALL"
        )

    session.execute(
        "CREATE TEMP TABLE deviating AS SELECT bucket "  # noqa: S608
        f"FROM ({summed('expected')}) e FULL JOIN ({summed('actual')}) a USING (bucket) "
        "WHERE (e.rows, e.digest) IS DISTINCT FROM (a.rows, a.digest)"
    )


def _deviating(side: str, keys: Sequence[str]) -> str:
    return f"(SELECT * FROM {side} WHERE {_hash(keys)} % {_BUCKETS} IN (FROM deviating))"  # noqa: S608


def _hash(columns: Sequence[str]) -> str:
    return f"hash({', '.join(('0', *columns))})"


def _equal(columns: Iterable[str]) -> str:
    return " AND ".join(f"e.{column} IS NOT DISTINCT FROM a.{column}" for column in columns) or "TRUE"


def _same(sides: Comparables, name: str, tolerance: Tolerance | None) -> str:
    """Whether a value is the expected one, as SQL; see `Tolerance.covers`."""
    exact = _equal([sides.columns[name]])
    if tolerance is None:
        return f"({exact})"
    one, other = f"e.{sides.numbers[name]}", f"a.{sides.numbers[name]}"
    bound = (
        f"greatest({tolerance.relative!r}::DOUBLE * greatest(abs({one}), abs({other})), {tolerance.absolute!r}::DOUBLE)"
    )
    close = f"isfinite({one}) AND isfinite({other}) AND abs({one} - {other}) <= {bound}"
    return f"({exact} OR coalesce({close}, FALSE))"


def _of_pairs(expected: np.ma.MaskedArray, actual: np.ma.MaskedArray, same: np.ma.MaskedArray) -> Matches:
    """Count the pairs of the join. A key that came twice has two pairs: the row that came first counts, right or not,
    and the other is a duplicate."""
    import numpy as np

    only_expected, only_actual = np.ma.getmaskarray(actual), np.ma.getmaskarray(expected)
    both = np.flatnonzero(~only_expected & ~only_actual)
    both = both[np.argsort(np.ma.getdata(actual)[both])]
    wanted, came = np.ma.getdata(expected)[both], np.ma.getdata(actual)[both]
    _, first = np.unique(wanted, return_index=True)
    again = np.ones(len(both), bool)
    again[first] = False
    wrong = ~np.ma.getdata(same)[both].astype(bool)
    lost = np.sort(np.ma.getdata(expected)[only_expected])
    unexpected = np.sort(np.ma.getdata(actual)[only_actual])
    return Matches(
        lost=len(lost),
        duplicated=int(again.sum()),
        unexpected=len(unexpected),
        wrong=int(wrong.sum()),
        examples=_examples(
            lost=(Pair(expected=int(row)) for row in lost[:EXAMPLES]),
            duplicated=(Pair(actual=int(row)) for row in came[again][:EXAMPLES]),
            unexpected=(Pair(actual=int(row)) for row in unexpected[:EXAMPLES]),
            wrong=map(Pair, wanted[wrong][:EXAMPLES].tolist(), came[wrong][:EXAMPLES].tolist()),
        ),
    )


def _examples(**kinds: Iterable[Pair]) -> dict[str, tuple[Pair, ...]]:
    """Some of each kind that there is, in the order of the outputs."""
    ordered = {
        kind: sorted(pairs, key=lambda pair: (-1 if pair.actual is None else pair.actual, pair.expected or 0))
        for kind, pairs in kinds.items()
    }
    return {kind: tuple(pairs[:EXAMPLES]) for kind, pairs in ordered.items() if pairs}
