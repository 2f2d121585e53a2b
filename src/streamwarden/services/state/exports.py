"""Puts an export where the user wants it: whole and private, or not at all."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.time_travel.answers import Exported
from streamwarden.services.state.looking import Look, Selection, export
from streamwarden.stream.spec import StreamSpec

NOTE: Final = "_streamwarden_export.json"
"""In an exported folder: of which stream, table and batch it is. Readers of parquet skip names that begin with `_`."""

_FORMATS: Final = ("parquet", "csv")


@dataclass(frozen=True, slots=True)
class Target:
    """A place for an export: a folder of parquet files, or one CSV file."""

    path: Path
    format: str


def target_of(given: str, spec: StreamSpec) -> Target:
    """The place that a user named. Raises ConfigError unless an export may be put there."""
    path = Path(given).absolute()
    format = path.suffix.removeprefix(".")
    if format not in _FORMATS:
        raise _refused(given, f"{path.name!r} names no format", "a name that ends with .parquet (a folder) or .csv")
    for place in (spec.checkpoint, spec.sink.path, spec.source.path):
        if place and path.resolve().is_relative_to(Path(place).resolve()):
            raise _refused(given, f"it is in a place of the stream, {place}", "a place that the stream does not use")
    if not path.parent.is_dir():
        raise _refused(given, "the folder above it does not exist", "an existing folder to put it in")
    if path.is_symlink():
        raise _refused(given, "it is a symbolic link", "a name of its own")
    other = path.exists() and (not path.is_file() if format == "csv" else not (path / NOTE).is_file())
    if other:
        raise _refused(given, "there is something else, which is not replaced", "a new name, or an earlier export")
    return Target(path, format)


def export_to(spec: StreamSpec, chosen: Selection, target: Target, *, batch: int | None = None) -> Look[Exported]:
    """Write the whole table after a batch to `target`, in place of an earlier export. Raises as `looking.show`."""
    take = _folder if target.format == "parquet" else _file
    return export(
        spec, chosen, batch=batch, format=target.format, take=lambda made, look: take(made, look, target.path)
    )


def _file(made: Path, look: Look[Exported], path: Path) -> None:
    """One file of the parts that Spark wrote."""
    with disk.replacing(path, mode=disk.PRIVATE) as file:
        file.write((",".join(map(_quoted, look.answer.header)) + "\n").encode())
        for part in sorted(made.glob("part-*")):
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n') else name


def _folder(made: Path, look: Look[Exported], path: Path) -> None:
    """The folder that Spark wrote, without its checksum files, renamed into its place when it is complete."""
    part, old = (path.with_name(f".{path.name}.{os.getpid()}.{what}") for what in ("part", "old"))
    try:
        part.mkdir(mode=disk.PRIVATE_FOLDER)
        for file in sorted(made.glob("part-*")):
            shutil.move(file, part / file.name)
            (part / file.name).chmod(disk.PRIVATE)
        disk.replace(part / NOTE, json.dumps(_note(look), indent=2) + "\n", mode=disk.PRIVATE)
        _swap(part, path, old)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _swap(part: Path, path: Path, old: Path) -> None:
    """Rename `part` to `path`. An earlier export is removed afterwards; if the renaming fails it is put back."""
    if not path.exists():
        part.rename(path)
        return
    path.rename(old)
    try:
        part.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _note(look: Look[Exported]) -> dict[str, Any]:
    table = look.table
    return {
        "stream": look.stream,
        "batch": look.batches[0],
        "operator": table.operator,
        "operator_name": table.name,
        "variable": table.variable,
        "rows": look.answer.rows,
    }


def _refused(given: str, observed: str, expected: str) -> ConfigError:
    return ConfigError(
        f"the state cannot be exported there: {observed}",
        expected=expected,
        where=f"--to {given}",
        next_step="name another place",
    )
