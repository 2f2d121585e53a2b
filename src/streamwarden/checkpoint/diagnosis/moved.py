"""Recognises an output folder that was moved: its manifest still names the files by their former absolute paths."""

from collections.abc import Mapping
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Damage, loses_rows
from streamwarden.checkpoint.diagnosis.named_files import lost_files
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG, Damaged, compactible_ids, list_or_empty
from streamwarden.checkpoint.formats.sink import added_files, read_entry
from streamwarden.units import format_count

_TRIED: Final = 100
"""Files of an entry that are looked for."""


def moved_files(output: Location, lost: Mapping[str, int | None]) -> tuple[str, frozenset[str]] | None:
    """The folder where the output was, and the lost files that are in the output now; None if it was not moved.

    Args:
        lost: path -> bytes of each file that the manifest names and that is not there.
    """
    inside = output.path.rstrip("/") + "/"
    away = {path: size for path, size in lost.items() if not path.startswith(inside)}
    former = next((root for path, size in away.items() if (root := _former(output, path, size)) is not None), None)
    if former is None:
        return None
    here = {inside + path.removeprefix(former): (path, size) for path, size in away.items() if path.startswith(former)}
    absent = lost_files(output.fs, {path: size for path, (_, size) in here.items()})
    return former.rstrip("/"), frozenset(path for now, (path, _) in here.items() if now not in absent)


def moved_output(output: Location) -> Damage | None:
    """The finding if the files of the newest entry were moved with their folder; None otherwise, and if the folder has
    no manifest that can be read. Cheap: no other entry is read. Raises OSError."""
    ids = compactible_ids(list_or_empty(output / SINK_LOG))
    try:
        entries = [read_entry(output / SINK_LOG, *newest) for newest in ids[-1:]]
    except (Damaged, FileNotFoundError):
        return None
    named = {file.path: file.size for file in added_files(entries)[-_TRIED:] if file.path.startswith("/")}
    lost = lost_files(output.fs, named)
    found = moved_files(output, {path: named[path] for path in lost})
    return None if found is None else moved(output, found[0], len(found[1]))


def _former(output: Location, path: str, size: int | None) -> str | None:
    """The folder, with a slash, below which the file was, if the output has it at the same place below itself. A file
    of a partitioned output is in a folder of its own."""
    parts = path.split("/")
    for depth in range(1, len(parts) - 1):
        below = "/".join(parts[-depth:])
        if not lost_files(output.fs, {(output / below).path: size}):
            return path.removesuffix(below)
    return None


def moved(output: Location, former: str, count: int) -> Damage:
    """The one finding for all its files."""
    return loses_rows(
        SINK_LOG,
        f"the output was moved: the manifest names {format_count(count, 'file')} below {former}, and they are here",
        "Spark continues and does not notice; Spark's reader looks for them where they were and refuses the folder.",
        f"move the folder back, or make {former} a symbolic link to it (`ln -s {output.path} {former}`); nothing has "
        "to be read again",
    )
