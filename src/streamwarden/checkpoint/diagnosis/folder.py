"""Recognizes a checkpoint; of any other folder, tells what it is and which checkpoints are below it."""

from collections.abc import Iterable, Sequence
from typing import Final

from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.checkpoint.formats.layout import COMMITS, METADATA, OFFSETS, PARTS, SINK_LOG, list_or_empty
from streamwarden.errors import CheckpointError, CheckpointMissing

_MARKS: Final = frozenset({METADATA, OFFSETS, COMMITS})
"""Two of these make a folder a checkpoint."""
_LISTED: Final = 200
_SHOWN: Final = 10
"""Checkpoints that an error lists."""


def require_checkpoint(folder: Location) -> None:
    """Raises CheckpointError if the folder holds no part of a checkpoint, CheckpointMissing if there is none."""
    error = CheckpointError
    try:
        names = set(folder.names())
    except FileNotFoundError:
        names, error = set(), CheckpointMissing
        observed = "there is no such folder"
    except NotADirectoryError:
        names = set()
        observed = "it is a file"
    else:
        observed = "it contains no part of a checkpoint"
    if names & set(PARTS):
        return
    below = checkpoints_below(folder, names)
    if below:
        raise _several(folder, below)
    next_step = "give the stream's `checkpoint` folder (`checkpointLocation`)"
    if SINK_LOG in names:
        observed, next_step = "it is the output of a query, not its checkpoint", f"{next_step}; this one is its sink"
    raise error(
        observed,
        expected=f"a folder with {', '.join(PARTS)} of a streaming query",
        where=folder.path,
        next_step=next_step,
    )


def _several(folder: Location, below: Sequence[str]) -> CheckpointError:
    shown = ", ".join(below[:_SHOWN]) + (f" and {len(below) - _SHOWN} more" if len(below) > _SHOWN else "")
    count = "a checkpoint is" if len(below) == 1 else f"{len(below)} checkpoints are"
    return CheckpointError(
        f"it is not a checkpoint itself; {count} below it: {shown}",
        expected=f"one folder with {', '.join(PARTS)} of a streaming query",
        where=folder.path,
        next_step=f"give one of them, such as {(folder / below[0]).path} (a query's `checkpointLocation`)",
    )


def checkpoints_below(folder: Location, names: Iterable[str], *, depth: int = 2) -> list[str]:
    """Checkpoints in the folders `names` of `folder`, as paths below it, ascending: a folder may hold those of several
    queries (`checkpoints/NAME`), or a folder for each (`streams/NAME/checkpoint`). Lists at most `_LISTED` folders a
    level."""
    paths = []
    for name in sorted(names)[:_LISTED]:
        inner = () if name.startswith((".", "_")) else list_or_empty(folder / name)
        if len(_MARKS.intersection(inner)) > 1:
            paths.append(name)
        elif depth > 1:
            paths += [join(name, below) for below in checkpoints_below(folder / name, inner, depth=depth - 1)]
    return paths
