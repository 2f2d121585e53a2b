"""Counts the deviations a second time, in another way than `matching`: other hashes, NumPy instead of DuckDB.

The rows are hashed here, and the sorted hashes of both sides are merged. If no tolerance is declared, rows whose hashes
have the same sums on both sides are the same rows and are not sorted: all of them, or else those of each bucket. What
both ways share is only how values of several types become comparable (`comparables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from streamwarden.services.verifying.comparables import Comparables
from streamwarden.verification.tolerance import Tolerance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Hashes: TypeAlias = npt.NDArray[np.uint64]

_PIECE: Final = 65_536
"""Rows that are hashed at a time: their columns fit into a processor's cache."""

_BUCKET_BITS: Final = 16
"""The rows are divided by so many bits of their keys' hashes."""

_SUMMED_BITS: Final = 22
"""Bits of a hash that are summed at a time: as DOUBLE values, such sums are exact for 2^31 rows."""

_ODD: Final = 0x9E3779B97F4A7C15
_FACTOR: Final = 0xBF58476D1CE4E5B9
_NULL: Final = 0xD1B54A32D192ED03


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """The rows of both sides and the deviations; see `Reconciliation`."""

    expected: int
    actual: int
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    wrong: int = 0


def recount(
    sides: Comparables, keys: Sequence[str], values: Sequence[str], tolerances: Mapping[str, Tolerance], *, whole: bool
) -> Recount:
    """Count the deviations.

    Args:
        keys, values: names of the columns.
        whole: the keys are whole rows, and may occur several times.
    """
    exact = [sides.columns[name] for name in values if name not in tolerances]
    key = [sides.columns[name] for name in keys]
    tables = sides.expected, sides.actual
    with ThreadPoolExecutor(len(tables)) as beside:  # NumPy computes without Python's lock
        wanted, came = beside.map(lambda table: _hashed(table, key, exact), tables)
    if not tolerances and _sums(*wanted) == _sums(*came):
        return Recount(expected=tables[0].num_rows, actual=tables[1].num_rows)
    if not tolerances:
        wanted, came = _deviating(wanted, came)
    found = _counted_rows(wanted[0], came[0]) if whole else _counted(sides, tolerances, wanted, came)
    return replace(found, expected=tables[0].num_rows, actual=tables[1].num_rows)


def _sums(keys: Hashes, rows: Hashes) -> tuple[int, int, int]:
    """How many rows there are, and the sums of both hashes: the same for the same rows in another order."""
    return len(keys), int(keys.sum()), int(rows.sum())


def _deviating(
    wanted: tuple[Hashes, Hashes], came: tuple[Hashes, Hashes]
) -> tuple[tuple[Hashes, Hashes], tuple[Hashes, Hashes]]:
    """The hashes of the rows in those buckets that do not have the same rows on both sides."""
    differs = (_bucket_sums(*wanted) != _bucket_sums(*came)).any(axis=0)
    mine, its = differs[_buckets(wanted[0])], differs[_buckets(came[0])]
    return (wanted[0][mine], wanted[1][mine]), (came[0][its], came[1][its])


def _buckets(keys: Hashes) -> npt.NDArray[np.intp]:
    import numpy as np

    return (keys >> np.uint64(64 - _BUCKET_BITS)).astype(np.intp)


def _bucket_sums(keys: Hashes, rows: Hashes) -> npt.NDArray[np.float64]:
    """Of each bucket the number of its rows, and the sums of the parts of their hashes."""
    import numpy as np

    buckets, mask = _buckets(keys), np.uint64((1 << _SUMMED_BITS) - 1)
    parts = ((rows >> np.uint64(shift)) & mask for shift in range(0, 64, _SUMMED_BITS))
    summed = (np.bincount(buckets, part, minlength=1 << _BUCKET_BITS) for part in parts)
    return np.stack([np.bincount(buckets, minlength=1 << _BUCKET_BITS).astype(np.float64), *summed])


def _counted_rows(wanted: Hashes, came: Hashes) -> Recount:
    """Whole rows, as multisets."""
    import numpy as np

    rows, places = np.unique(np.concatenate([wanted, came]), return_inverse=True)
    more = np.bincount(places[len(wanted) :], minlength=len(rows))
    fewer = np.bincount(places[: len(wanted)], minlength=len(rows))
    surplus = np.maximum(more - fewer, 0)
    return Recount(
        expected=len(wanted),
        actual=len(came),
        lost=int(np.maximum(fewer - more, 0).sum()),
        duplicated=int(surplus[fewer > 0].sum()),
        unexpected=int(surplus[fewer == 0].sum()),
    )


def _counted(
    sides: Comparables,
    tolerances: Mapping[str, Tolerance],
    wanted: tuple[Hashes, Hashes],
    came: tuple[Hashes, Hashes],
) -> Recount:
    """By key: each row that came is looked up among the expected ones. Both are sorted first: look-ups in another order
    read memory that no cache holds."""
    import numpy as np

    order, came_order = np.argsort(wanted[0]), np.argsort(came[0])
    sorted_keys, keys = wanted[0][order], came[0][came_order]
    place = np.searchsorted(sorted_keys, keys)
    found = np.zeros(len(keys), bool)
    inside = np.flatnonzero(place < len(sorted_keys))
    found[inside] = sorted_keys[place[inside]] == keys[inside]
    mine, its = came_order[found], order[place[found]]
    equal = wanted[1][its] == came[1][mine]
    for name, tolerance in tolerances.items():
        equal &= _close(sides, name, tolerance, its, mine)
    seen = len(np.unique(its))
    return Recount(
        expected=len(order),
        actual=len(found),
        lost=len(order) - seen,
        duplicated=len(mine) - seen,
        unexpected=len(found) - len(mine),
        wrong=int((~equal).sum()),
    )


def _close(sides: Comparables, name: str, tolerance: Tolerance, wanted: Any, came: Any) -> npt.NDArray[np.bool_]:
    """Whether values are equal or close: as `math.isclose` defines it, and not by the formula of `Tolerance`."""
    import numpy as np

    column, numbers = sides.columns[name], sides.numbers[name]
    one, other = _hashes_of(sides.expected, column)[wanted], _hashes_of(sides.actual, column)[came]
    left, right = (
        table.column(numbers).to_numpy()[rows] for table, rows in ((sides.expected, wanted), (sides.actual, came))
    )
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(left - right)
        close = (
            (apart <= np.abs(tolerance.relative * left))
            | (apart <= np.abs(tolerance.relative * right))
            | (apart <= tolerance.absolute)
        )
    equal: npt.NDArray[np.bool_] = (one == other) | (close & np.isfinite(left) & np.isfinite(right))
    return equal


def _hashes_of(table: pa.Table, column: str) -> Hashes:
    return _hashed(table, [column], [])[0]


def _hashed(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> tuple[Hashes, Hashes]:
    """A hash of each row's key, and one of its key and values."""
    import numpy as np

    of_keys, of_rows = np.empty(table.num_rows, np.uint64), np.empty(table.num_rows, np.uint64)
    begin = 0
    for key_hashes, row_hashes in _hashed_pieces(table, keys, values):
        rows = slice(begin, begin := begin + len(key_hashes))
        of_keys[rows], of_rows[rows] = key_hashes, row_hashes
    return of_keys, of_rows


def _hashed_pieces(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> Iterator[tuple[Hashes, Hashes]]:
    import numpy as np

    for piece in table.select([*keys, *values]).to_batches(max_chunksize=_PIECE):
        made = np.full(len(piece), _ODD, np.uint64)
        for array in piece.columns[: len(keys)]:
            _add(made, _of_array(array))
        of_keys = _mixed(made)
        for array in piece.columns[len(keys) :]:
            _add(made, _of_array(array))
        yield of_keys, _mixed(made)


def _add(hashes: Hashes, numbers: Hashes) -> None:
    """Take one more number into each hash, in place. The order of the numbers matters."""
    import numpy as np

    hashes ^= numbers
    hashes *= np.uint64(_FACTOR)
    hashes ^= hashes >> np.uint64(29)


def _mixed(hashes: Hashes) -> Hashes:
    """Every bit of the result depends on every bit of the argument (the finalizer of SplitMix64)."""
    import numpy as np

    hashes = hashes ^ (hashes >> np.uint64(30))
    hashes *= np.uint64(_FACTOR)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes


def _of_array(array: pa.Array) -> Hashes:
    """A number for each value: the same for equal values."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_binary(array.type):
        made = _of_bytes(array)
    elif pa.types.is_decimal(array.type):
        halves = np.frombuffer(array.buffers()[1], "<u8").reshape(-1, 2)[array.offset : array.offset + len(array)]
        made = halves[:, 0].copy()
        _add(made, halves[:, 1])
    else:
        kind = pa.float64() if pa.types.is_floating(array.type) else pa.int64()
        plain = array.cast(kind) if array.null_count == 0 else array.cast(kind).fill_null(0)
        made = plain.to_numpy(zero_copy_only=False).view(np.uint64)
    if array.null_count:
        made = np.where(array.is_null().to_numpy(zero_copy_only=False), np.uint64(_NULL), made)
    return made


def _of_bytes(array: pa.Array) -> Hashes:
    """Of texts or bytes: eight bytes of every value at a time."""
    import numpy as np
    import pyarrow as pa

    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, content = array.buffers()
    places = np.frombuffer(offsets, wide)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(places)
    size = int(places[-1] - places[0])
    padded = np.zeros(size + 8, np.uint8)
    if size:
        padded[:size] = np.frombuffer(content, np.uint8)[places[0] : places[-1]]
    words = np.ndarray((size + 1,), "<u8", padded, strides=(1,))
    begins = places[:-1] - places[0]
    masks = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
    made = lengths.astype(np.uint64)
    for at in range(0, int(lengths.max(initial=0)), 8):
        longer: Any = lengths > at
        longer = slice(None) if longer.all() else np.flatnonzero(longer)
        word = words[begins[longer] + at]
        word &= masks[np.minimum(lengths[longer] - at, 8)]
        longer_hashes = made[longer]
        _add(longer_hashes, word)
        made[longer] = longer_hashes
    return made
