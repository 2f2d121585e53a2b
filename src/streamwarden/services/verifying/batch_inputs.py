"""The input of one batch in a few words, for a sample of an output's rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import offsets
from streamwarden.checkpoint.offset_texts import describe_offset
from streamwarden.checkpoint.topics import topic_offsets
from streamwarden.errors import CheckpointError

_NAMED: Final = 3
"""Files, or partitions, that are named; the others are counted."""


def describe_input(batch: int, *, checkpoint: Location, files: Mapping[int, Sequence[Path]]) -> str | None:
    """Input of the batch: its files, or each source's offsets before and after it. None if the checkpoint no longer
    says it.

    Args:
        files: batch -> its input files, of a source of files.
    """
    if names := files.get(batch):
        return _some([path.name for path in names])
    try:
        after = offsets(checkpoint, batch).sources
        before = offsets(checkpoint, batch - 1).sources if batch else (None,) * len(after)
    except CheckpointError:
        return None
    return "; ".join(_between(*pair) for pair in zip(before, after, strict=False)) or None


def _between(before: Any, after: Any) -> str:
    ends = topic_offsets(after)
    if ends is None:
        return f"{describe_offset(before)} to {describe_offset(after)}"
    return _some(list(_ranges(topic_offsets(before) or {}, ends))) or "no record"


def _ranges(begins: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> Iterator[str]:
    for (topic, partition), end in sorted(ends.items()):
        begin = begins.get((topic, partition))
        if begin != end:
            yield f"{topic}-{partition} up to {end}" if begin is None else f"{topic}-{partition} from {begin} to {end}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
