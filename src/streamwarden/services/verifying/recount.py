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
"""Rows that are read or hashed at a time: their columns fit into a processor's cache."""

_BUCKET_BITS: Final = 16
"""The rows are divided by so many bits of their keys' hashes."""

_WIDE: Final = 256
"""Bytes up to which the values of a piece are padded to the same length."""

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
            one, other = beside.map(_bucket_sums, (wanted, came))
            differs = (one != other).any(axis=0)
            wanted, came = beside.map(lambda side: _in_buckets(side, differs), (wanted, came))
    found = _counted_rows(wanted[0], came[0]) if whole else _counted(sides, tolerances, wanted, came)
    return replace(found, expected=tables[0].num_rows, actual=tables[1].num_rows)


def _sums(keys: Hashes, rows: Hashes) -> tuple[int, int, int]:
    """How many rows there are, and the sums of both hashes: the same for the same rows in another order."""
    return len(keys), int(keys.sum()), int(rows.sum())


def _bucket_sums(side: tuple[Hashes, Hashes]) -> Hashes:
    """Of each bucket the number of its rows, and the sum of their hashes, modulo 2^64."""
    import numpy as np

    keys, rows = side
    counts, sums = np.zeros((2, 1 << _BUCKET_BITS), np.uint64)
    for piece in _slices(keys):
        buckets = _buckets(keys[piece])
        np.add.at(counts, buckets, np.uint64(1))
        np.add.at(sums, buckets, rows[piece])
    return np.stack([counts, sums])


def _in_buckets(side: tuple[Hashes, Hashes], chosen: npt.NDArray[np.bool_]) -> tuple[Hashes, Hashes]:
    """The hashes of the rows in these buckets."""
    import numpy as np

    keys, rows = side
    places = np.concatenate([chosen[_buckets(keys[piece])] for piece in _slices(keys)] or [np.zeros(0, bool)])
    return keys[places], rows[places]


def _slices(hashes: Hashes) -> Iterator[slice]:
    return (slice(begin, begin + _PIECE) for begin in range(0, len(hashes), _PIECE))


def _buckets(keys: Hashes) -> npt.NDArray[np.intp]:
    import numpy as np

    return (keys >> np.uint64(64 - _BUCKET_BITS)).astype(np.intp)


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
    """Of texts or bytes: the sum of what each eight bytes contribute. Zeros at the end contribute nothing, so the
    length is taken in too."""
    import numpy as np
    import pyarrow.compute as pc

    lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    made: Hashes = lengths * np.uint64(_ODD)
    longest = int(lengths.max(initial=0))
    words = _padded(array, longest) if longest <= _WIDE else _words_of_long(array, longest)
    for at, (rows, word) in enumerate(words):
        made[rows] += _contribution(word, at)
    return made


def _contribution(word: Hashes, at: int) -> Hashes:
    """What eight bytes at the place `at` add to a hash: nothing, if they are zeros."""
    import numpy as np

    made: Hashes = word * np.uint64(_ODD * (2 * at + 1) % (1 << 64))
    made ^= made >> np.uint64(32)
    made *= np.uint64(_FACTOR)
    made ^= made >> np.uint64(29)
    return made


def _padded(array: pa.Array, longest: int) -> Iterator[tuple[slice, Hashes]]:
    """Eight bytes of every value at a time: the values are padded with zeros to the same length."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    width = -(-longest // 8)
    texts = array.view(pa.string()) if pa.types.is_binary(array.type) else array
    whole = pc.ascii_rpad(texts.fill_null(""), 8 * width, "\0")
    words = np.frombuffer(whole.buffers()[2], "<u8", len(array) * width) if width else np.zeros(0, "<u8")
    words = words.reshape(len(array), width)
    return ((slice(None), words[:, at]) for at in range(width))


def _words_of_long(array: pa.Array, longest: int) -> Iterator[tuple[Any, Hashes]]:
    """Eight bytes at a time of the values that have so many: few values may be very long."""
    import numpy as np
    import pyarrow as pa

    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, content = array.buffers()
    places = np.frombuffer(offsets, wide)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    begins, lengths = places[:-1] - places[0], np.diff(places)
    padded = np.zeros(int(places[-1] - places[0]) + 8, np.uint8)
    padded[:-8] = np.frombuffer(content, np.uint8)[places[0] : places[-1]]
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    masks = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
    for at in range(0, longest, 8):
        rows = np.flatnonzero(lengths > at)
        yield rows, words[begins[rows] + at] & masks[np.minimum(lengths[rows] - at, 8)]
