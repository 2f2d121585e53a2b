"""Reads the files that a script's function of foreachBatch wrote itself: a fork keeps them below `_writes` in the
folder of the query's output, under the path that the function named (`fork.foreach_batch: run`).

No manifest vouches for them, so that every data file of a folder counts, as for the readers of such an output.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.captures import WRITES
from streamwarden.sinks.files.data import COMPRESSED, PARQUET, DataFormat, read_files
from streamwarden.sinks.files.formats import FileFormat, FilesSink
from streamwarden.sinks.output import Output

_LOGS: Final = frozenset({"_delta_log"})
"""Folders that say which of the files beside them count: such a table is not read here."""

_FORMATS: Final[tuple[DataFormat, ...]] = (
    PARQUET,
    *(FilesSink(path="", format=form).data_format({}) for form in (FileFormat.JSON, FileFormat.ORC)),
)

_LINES: Final = FilesSink(path="", format=FileFormat.TEXT).data_format({})
"""Of a format that is read without a schema here the lines are compared."""

_SPELLED: Final = ("txt", "csv", "xml")


def folders_of(output: str) -> Iterator[str]:
    """The folders below `_writes` that hold data files, relative to it."""
    root = Path(output, WRITES)
    for folder in (root, *sorted(path for path in root.rglob("*") if path.is_dir())):
        inner = folder.relative_to(root)
        if not any(part.startswith(("_", ".")) for part in inner.parts) and any(_data_files(folder)):
            yield inner.as_posix()


def format_in(output: str, name: str) -> DataFormat | None:
    """The format of the data files of a folder below `_writes`; None: it has several, or one that cannot be read
    back."""
    return _format_of(Path(output, WRITES, name))


def _format_of(folder: Path) -> DataFormat | None:
    files = [str(file) for file in _data_files(folder)]
    if any((parent / log).exists() for log in _LOGS for parent in (folder, *folder.parents)):
        return None
    known = next((form for form in _FORMATS if files and all(map(form.names, files))), None)
    ends = tuple(f".{suffix}{packed}" for suffix in _SPELLED for packed in ("", *COMPRESSED))
    return known or (_LINES if files and all(file.endswith(ends) for file in files) else None)


def read_written(folder: Path) -> Output:
    """The rows of every data file of a folder; without any, or without a readable format, an empty output."""
    form = _format_of(folder)
    if form is None:
        return Output(columns=(), parts=[])
    read = read_files(open_path(str(folder)), [str(file) for file in sorted(_data_files(folder))], form)
    problems = tuple(f"{Path(file).name} cannot be read: {reason}" for file, reason in read.unreadable)
    return Output(columns=read.columns, parts=list(read.parts), types=read.types, problems=problems)


def _data_files(folder: Path) -> Iterator[Path]:
    files = folder.iterdir() if folder.is_dir() else iter(())
    return (file for file in files if file.is_file() and not file.name.startswith(("_", ".")))
