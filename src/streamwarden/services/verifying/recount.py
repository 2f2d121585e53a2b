"""Counts the deviations a second time, in another way than `matching`: over all rows, exactly, without their hashes.

Both ways share only how values of several types become comparable (`comparables`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

from streamwarden.services.verifying.comparables import Comparables
from streamwarden.verification.reconciliation import Deviations
from streamwarden.verification.tolerance import Tolerance

_MEMORY: Final = "1500MB"
"""What DuckDB may use for itself; the rest goes to disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount(Deviations):
    """The rows of both sides and the deviations."""

    expected: int
    actual: int


def recount(
    sides: Comparables, keys: Sequence[str], values: Sequence[str], tolerances: Mapping[str, Tolerance], *, whole: bool
) -> Recount:
    """Count the deviations.

    Args:
        keys, values: names of the columns.
        whole: the keys are whole rows, and may occur several times.
    """
    import duckdb

    expected, actual = sides.expected.num_rows, sides.actual.num_rows
    key = [sides.columns[name] for name in keys]
    query = _of_rows(key) if whole else _of_keys(key, [_close(sides, name, tolerances.get(name)) for name in values])
    with (
        TemporaryDirectory(prefix="streamwarden-recount-") as scratch,
        duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": scratch}) as session,
    ):
        session.register("wanted", sides.expected)
        session.register("came", sides.actual)
        lost, unexpected, wrong = (int(count or 0) for count in session.execute(query).fetchall()[0])
    # Of the rows that came, those that are expected and not lost count once; the rest was written again.
    duplicated = actual - unexpected - (expected - lost)
    return Recount(
        expected=expected, actual=actual, lost=lost, duplicated=duplicated, unexpected=unexpected, wrong=wrong
    )


def _of_rows(columns: Sequence[str]) -> str:
    """Whole rows, as multisets: how often each is on both sides."""
    row = ", ".join(columns)
    return f"""
        SELECT sum(greatest(wanted - came, 0)), sum(came) FILTER (wanted = 0), 0 FROM (
            SELECT count(*) FILTER (is_wanted) AS wanted, count(*) FILTER (NOT is_wanted) AS came
            FROM (SELECT {row}, TRUE AS is_wanted FROM wanted UNION ALL SELECT {row}, FALSE FROM came) GROUP BY {row}
        )"""  # noqa: S608


def _of_keys(key: Sequence[str], close: Sequence[str]) -> str:
    """Compare by key: each row that came with the expected row of its key."""
    same_key = " AND ".join(f"w.{name} IS NOT DISTINCT FROM c.{name}" for name in key)
    on_both = "w.row IS NOT NULL AND c.row IS NOT NULL"
    return f"""
        SELECT count(*) FILTER (c.row IS NULL), count(*) FILTER (w.row IS NULL),
            count(*) FILTER ({on_both} AND NOT ({" AND ".join(close) or "TRUE"}))
        FROM wanted w FULL JOIN came c ON {same_key}"""  # noqa: S608


def _close(sides: Comparables, name: str, tolerance: Tolerance | None) -> str:
    """SQL of whether a value is equal or close: as `math.isclose` defines it, not by the formula of `Tolerance`."""
    exact = f"w.{sides.columns[name]} IS NOT DISTINCT FROM c.{sides.columns[name]}"
    if tolerance is None:
        return exact
    one, other = f"w.{sides.numbers[name]}", f"c.{sides.numbers[name]}"
    bounds = (f"abs({tolerance.relative!r}::DOUBLE * {one})", f"abs({tolerance.relative!r}::DOUBLE * {other})")
    near = " OR ".join(f"abs({one} - {other}) <= {bound}" for bound in (*bounds, f"{tolerance.absolute!r}::DOUBLE"))
    return f"({exact} OR coalesce(isfinite({one}) AND isfinite({other}) AND ({near}), FALSE))"
