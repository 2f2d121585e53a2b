"""The output of the commands: tables for people and JSON for programs on stdout, errors on stderr."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from streamwarden.errors import StreamwardenError
from streamwarden.redaction import redacted, redacted_text

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_IN_A_PIPE = 200
"""Columns of a table that is not printed on a terminal: wide enough that nothing is cut."""


def console(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (default: stdout), with colours on a terminal, plain and wide in a pipe."""
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:  # Rich's own ends the program with status 1
            raise BrokenPipeError

    stream = sys.stdout if stream is None else stream
    return OurConsole(file=stream, highlight=False, width=None if stream.isatty() else _WIDTH_IN_A_PIPE)


def say(text: str) -> None:
    """Print one line to stdout. It may hold Rich's markup."""
    console().print(text, soft_wrap=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", empty: str = "") -> None:
    """Print a table to stdout, or `empty` if there are no rows. Cells may hold Rich's markup."""
    from rich import box
    from rich.table import Table

    rows = list(rows)
    if not rows:
        say(empty)
        return
    grid = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    console().print(grid)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Shows on a terminal how far something is, while the block runs; in a pipe nothing. What the block gets is told
    what is counted, how much of it is done, and of how much. It goes to stderr, so that `--json` stays JSON."""
    if not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.progress import Progress, TaskID

    with Progress(console=console(sys.stderr), transient=True) as bar:
        lines: dict[str, TaskID] = {}

        def tell(what: str, done: int, of: int) -> None:
            if what not in lines:
                lines[what] = bar.add_task(what, total=of)
            bar.update(lines[what], completed=done, total=of)

        yield tell


def text(value: object) -> str:
    """`value` as text without secrets that Rich does not interpret as markup."""
    from rich.markup import escape

    return escape(redacted_text(str(value)))


def as_json(value: object) -> None:
    """Print `value` to stdout as JSON, without secrets."""
    json.dump(redacted(plain(value)), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def plain(value: Any) -> Any:
    """Dataclasses, enums, paths and tuples as JSON types; numbers that JSON lacks (NaN, infinity) as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def error_block(error: StreamwardenError) -> None:
    """Print one block to stderr: what was observed, where, what was expected, what to do next. It shows no secret."""
    lines = [f"[bold red]Error:[/] {text(error.observed)}"]
    for label, part in (("where", error.where), ("expected", error.expected), ("next", error.next_step)):
        if part:
            lines.append(f"  [bold]{label}:[/] {text(part)}")
    console(sys.stderr).print("\n".join(lines), soft_wrap=True)
