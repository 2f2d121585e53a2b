"""Makes the rows of a stream from the records of its topic: each event once, in columns.

The records become Arrow columns some thousands at a time. Of each record only two digests of 16 bytes are kept besides,
of its id and of its key: they decide which records are repeats and which rows were replaced. So ten million records
need no ten million Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Final

from streamwarden.sinks.json_values import parse_object, sorted_types, typed, types_of
from streamwarden.sinks.output import Output, Part, part_of
from streamwarden.verification.comparing.column_types import ColumnType
from streamwarden.verification.comparing.events import CommittedRecords, Event, LiveRecords

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TOGETHER: Final = 50_000
"""Records that are Python objects at a time."""

_DIGEST: Final = 16
"""Bytes of a digest."""

_NO_BATCH: Final = -1
"""In place of the batch of a record that names none."""


def delivered(
    events: Iterable[Event],
    records: CommittedRecords | LiveRecords,
    like: Mapping[str, object],
    *,
    deduplicated: bool = True,
) -> Output:
    """The rows of the selected records, in the order of `events`.

    Args:
        records: selects and counts them.
        like: column -> a value of its type; see `Expectation.samples`.
        deduplicated: False: as a reader sees them that ignores ids and keys.
    """
    taken = _Taken(like)
    left = iter(events)
    while chunk := list(islice(left, _TOGETHER)):
        taken.add([event for event in chunk if records.selects(event)])
    ids, keys, batches = taken.ids, taken.keys, taken.batches
    first = _first(ids)
    kept, changed = first | (records.REPEATS_ARE_ROWS or not deduplicated), 0
    if records.newest and deduplicated:
        kept, changed = _newest(keys, batches, kept)
    repeats = _counted(batches[~first])
    return Output(
        columns=tuple(taken.types),
        parts=list(_only(taken.parts, kept)),
        types={name: sorted_types(kinds) for name, kinds in taken.types.items()},
        repeated=int((~first).sum()),
        notes={
            "repeated_records": repeats,
            "records_of_others": records.foreign,
            "uncommitted_records": records.uncommitted,
        },
        problems=tuple(_problems(records.misnamed, 0 if records.REPEATS_ARE_ROWS else changed)),
    )


def _problems(misnamed: int, changed: int) -> Iterator[str]:
    if misnamed:
        yield f"{misnamed} records have an event id that is not that of their key and value"
    if changed:
        yield f"{changed} rows differed when their batch ran again, or a key came twice in a batch"


@dataclass
class _Taken:
    """The selected records, in columns."""

    like: Mapping[str, object]
    parts: list[Part] = field(default_factory=list)
    types: dict[str, set[ColumnType]] = field(default_factory=dict)
    _ids: bytearray = field(default_factory=bytearray)
    _keys: bytearray = field(default_factory=bytearray)

    def add(self, events: Sequence[Event]) -> None:
        """Take these records too."""
        objects = [parse_object(event.value) for event in events]
        shown = types_of(objects)
        for name, kinds in shown.items():
            self.types.setdefault(name, set()).update(kinds)
        values = {name: [typed(item.get(name), self.like.get(name)) for item in objects] for name in shown}
        self.parts.append(part_of(values, len(events), [event.batch for event in events]))
        for event in events:
            self._ids += blake2b(f"{event.id}/{event.batch}".encode(), digest_size=_DIGEST).digest()
            self._keys += blake2b(event.key, digest_size=_DIGEST).digest()

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """Of each record the digest of its id and its batch, as two numbers."""
        return _numbers(self._ids)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Of each record the digest of its key, as two numbers."""
        return _numbers(self._keys)

    @property
    def batches(self) -> npt.NDArray[np.int64]:
        """The batch that wrote each record."""
        import numpy as np

        arrays = [part.batches.fill_null(_NO_BATCH).to_numpy() for part in self.parts if part.batches is not None]
        return np.concatenate([np.empty(0, np.int64), *arrays])


def _numbers(digests: bytearray) -> npt.NDArray[np.uint64]:
    import numpy as np

    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def _grouped(digests: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """The records with equal digests side by side, in the order of the topic, and whether each begins a group."""
    import numpy as np

    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable
    begins = np.ones(len(order), bool)
    begins[1:] = (digests[order[1:]] != digests[order[:-1]]).any(axis=1)
    return order, begins


def _first(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Whether a record is the first one with its id."""
    import numpy as np

    order, begins = _grouped(ids)
    first = np.zeros(len(ids), bool)
    first[order[begins]] = True
    return first


def _newest(
    keys: npt.NDArray[np.uint64], batches: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], int]:
    """Whether a record is the newest one of its key, and how many rows of one batch contradict each other. A key is in
    one partition, so its records are in the order of their batches."""
    import numpy as np

    places = np.flatnonzero(kept)
    order, begins = _grouped(keys[places])
    places = places[order]
    changed = int((~begins[1:] & (batches[places[1:]] == batches[places[:-1]])).sum())
    ends = np.append(begins[1:], True) if len(begins) else begins
    newest = np.zeros(len(kept), bool)
    newest[places[ends]] = True
    return newest, changed


def _counted(batches: npt.NDArray[np.int64]) -> dict[str, int]:
    """Batch -> how many there are of it."""
    import numpy as np

    numbers, counts = np.unique(batches[batches != _NO_BATCH], return_counts=True)
    return {str(number): int(count) for number, count in zip(numbers, counts, strict=True)}


def _only(parts: Iterable[Part], kept: npt.NDArray[np.bool_]) -> Iterator[Part]:
    """The parts with the rows that are kept."""
    import pyarrow as pa

    begin = 0
    for part in parts:
        own, begin = kept[begin : begin + part.count], begin + part.count
        if own.all():
            yield part
        elif own.any():
            mask = pa.array(own)
            batches = None if part.batches is None else part.batches.filter(mask)
            yield replace(part, table=part.table.filter(mask), count=int(own.sum()), batches=batches)
