"""`status`: one line for each stream, those in trouble first, each with its reason below it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import as_json, console, text
from streamwarden.cli.session import AsJson, MaybeQuery, duration, workspace
from streamwarden.cli.status import StreamStatus, gather
from streamwarden.cli.words import NONE, age, ago, number, rate, short, size, status_word
from streamwarden.errors import StoreError
from streamwarden.health.evaluations import LastEvaluation, last_evaluation
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.restart import describe

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from streamwarden.services.workspace import Workspace

WIDE: Final = 150
"""Columns of a terminal that has room for everything."""
REASON_LINES: Final = 2
"""Lines of a reason on a narrow screen of many streams; `status STREAM` and `--wide` show all of it."""
NARROWEST: Final = 12
"""Columns of the stream's name at least."""

_COLOURS: Final = {"running": "green", "completed": "dim", "stopped": "dim", "new": "dim", "starting": "cyan"}
_QUIET: Final = ("stopped", "new", "completed")
"""States in which no driver runs, and none should."""


@dataclass(frozen=True, slots=True)
class Column:
    """Args: wide: only where there is room; cell: the content, in Rich's markup."""

    heading: str
    cell: Callable[[StreamStatus, float], str]
    right: bool = False
    wide: bool = False


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("status")(status)


def status(
    context: typer.Context,
    stream: MaybeQuery = None,
    watch: Annotated[bool, typer.Option("--watch", help="Redraw until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often `--watch` redraws.")] = "5s",
    wide: Annotated[bool, typer.Option("--wide", help="Show every column, however wide the terminal is.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show a line for each stream that never started.")] = False,
    json: AsJson = False,
) -> int:
    """Show every stream: state, rows per second, lag, verdict, restarts, last exit. Exit code 1 if one is in trouble.

    Streams in trouble come first, each with its reason. A stream that was stopped on purpose is not in trouble. The
    queries of a script that starts several follow their stream, as STREAM/QUERY.
    """
    space = workspace(context)
    if watch:
        return _watch(space, stream, _interval(every, json), wide=wide, everything=everything)
    now = time.time()
    found, last = gather(space, stream, now=now), last_evaluation(space.store.evaluations.all(), now)
    if json:
        as_json({"at": now, "last_evaluation": last, "streams": found})
    else:
        _screen(wide).print(page(found, last, now, wide=wide, everything=everything or stream is not None))
    return Exit.BAD if any(each.in_trouble for each in found) else Exit.OK


def _interval(given: str, json: bool) -> float:
    if json:
        raise typer.BadParameter("it draws a table; run `status --json` as often as you need", param_hint="--watch")
    return max(0.2, duration(given, "--every"))


def _watch(space: Workspace, stream: str | None, interval: float, *, wide: bool, everything: bool) -> int:
    """Draw until Ctrl-C. While the store does not answer, the last state stays on the screen with the reason."""
    from rich.console import Group
    from rich.live import Live

    found, seen_at, failure = gather(space, stream, now=time.time()), time.time(), ""
    evaluations = space.store.evaluations.all()

    def draw() -> RenderableType:
        last = last_evaluation(evaluations, seen_at)
        shown = page(found, last, seen_at, wide=wide, everything=everything or stream is not None)
        clock = datetime.fromtimestamp(seen_at).strftime("%H:%M:%S")
        problem = f"; [red]not updated since, because {text(failure)}[/]" if failure else ""
        return Group(shown, f"[dim]{clock}, every {interval:g} s; Ctrl-C ends it[/]{problem}")

    screen = _screen(wide)
    try:
        with Live(draw(), console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                try:
                    found, seen_at, failure = gather(space, stream, now=time.time()), time.time(), ""
                    evaluations = space.store.evaluations.all()
                except StoreError as error:
                    failure = str(error)
                live.update(draw(), refresh=True)
    except KeyboardInterrupt:
        return Exit.OK


def _screen(wide: bool) -> Console:
    """The console; if everything is to be shown on a narrow terminal, that wraps the lines."""
    found = console()
    if wide:
        found.width = max(found.width, WIDE)
    return found


def page(
    found: Sequence[StreamStatus], last: LastEvaluation, now: float, *, wide: bool, everything: bool
) -> RenderableType:
    """The whole screen. Without evaluations every verdict on it is old: its last line says when the last one was."""
    from rich.console import Group

    if not found:
        return "No streams: add a file to config/streams."
    folded = [] if everything else [each for each in found if each.state == "new" and not each.batches]
    lines = [each for each in by_trouble(found) if each not in folded]
    parts: list[RenderableType] = [_Table(lines, now, wide)] if lines else []
    if folded:
        names = ", ".join(text(each.stream) for each in folded)
        parts.append(f"[dim]{len(folded)} never started: {names} (--all shows a line for each)[/]")
    parts.append(f"[yellow]{text(last.text)}[/]" if last.late else f"[dim]{text(last.text)}[/]")
    return Group(*parts)


def by_trouble(found: Sequence[StreamStatus]) -> list[StreamStatus]:
    """Worst first, then by name. The queries of a stream stay below it, and count for it."""
    worst: dict[str, int] = {}
    for each in found:
        name = owner(each.stream)
        worst[name] = min(_rank(each), worst.get(name, len(_ORDER)))
    return sorted(found, key=lambda each: (worst[owner(each.stream)], owner(each.stream), each.stream))


_ORDER: Final[tuple[Callable[[StreamStatus], bool], ...]] = (
    lambda each: each.lacks_driver,
    lambda each: each.in_trouble,
    lambda each: each.state not in _QUIET and each.worst is Status.WARNING,
    lambda each: each.state == "starting",
    lambda each: each.cured is not None,
    lambda each: each.state == "running",
    lambda each: each.state == "completed",
    lambda each: each.state == "stopped",
)
"""The first that is true of a stream is its place."""


def _rank(each: StreamStatus) -> int:
    return next((place for place, holds in enumerate(_ORDER) if holds(each)), len(_ORDER))


def reasons(each: StreamStatus, now: float, *, wide: bool = False) -> list[str]:
    """What a person has to know beside the columns, one line each. `wide`: also why a stream was stopped."""
    found = []
    if each.problem and (wide or each.lacks_driver):
        found.append(text(each.problem))
    if each.state not in _QUIET and each.worst in (Status.WARNING, Status.CRITICAL):
        others = f" (also {', '.join(each.worst_checks[1:])})" if each.worst_checks[1:] else ""
        found.append(text(f"{each.worst_checks[0]}: {each.worst_reason}{others}"))
    if each.executors_lost:
        found.append(f"executors: {each.executors} alive, {each.executors_lost} lost by this driver")
    if each.cured is not None:
        what = f"last exit: {_exit_at(each.cured.exit.kind, each.cured.exit.ended_at, now)}"
        again = each.cured.restarted_at - each.cured.exit.ended_at
        found.append(text(f"{what}, restarted after {short(again)}: {describe(each.cured.exit)}"))
    if each.not_kept:
        found.append(f"{number(each.not_kept)} malformed rows were not kept in the quarantine")
    return found


def _exit_at(kind: str, at: float, now: float) -> str:
    """`killed 22:04`; with the day if it is longer ago."""
    return f"{kind} {datetime.fromtimestamp(at).strftime('%H:%M' if now - at < 86400 else '%b %d')}"


def _name(each: StreamStatus, _: float) -> str:
    return text(each.stream)


def _state(each: StreamStatus, _: float) -> str:
    return f"[{_COLOURS.get(each.state, 'bold red')}]{each.state}[/]"


def _rate(each: StreamStatus, _: float) -> str:
    return rate(each.rows_per_second)


def _lag(each: StreamStatus, _: float) -> str:
    return NONE if each.state in _QUIET or each.backlog_seconds is None else short(each.backlog_seconds)


def _health(each: StreamStatus, now: float) -> str:
    """`WARNING 25s`: the worst verdict, and how long ago it was reached."""
    if each.state in _QUIET:
        return NONE
    since = "" if each.judged_at is None else f" {short(max(0.0, now - each.judged_at))}"
    return status_word(each.worst) + (f"[bold red]{since}[/]" if each.unjudged else since)


def _restarts(each: StreamStatus, _: float) -> str:
    return f"[yellow]{each.restarts}[/]" if each.restarts else "0"


def _last_exit(each: StreamStatus, now: float) -> str:
    last = each.last_exit or (each.cured.exit if each.cured is not None else None)
    return NONE if last is None else _exit_at(last.kind, last.ended_at, now)


def _batch(each: StreamStatus, now: float) -> str:
    return NONE if each.last_batch is None else f"{each.last_batch}, {ago(each.last_batch_at, now)}"


def _rows(each: StreamStatus, _: float) -> str:
    """`336,776 (18 malformed, 7 of them not kept)`."""
    if not each.malformed:
        return number(each.rows)
    lost = f", [red]{number(each.not_kept)} of them not kept[/]" if each.not_kept else ""
    return f"{number(each.rows)} [yellow]({number(each.malformed)} malformed{lost})[/]"


def _executors(each: StreamStatus, _: float) -> str:
    """`2 (1 lost)`, on a cluster."""
    if each.executors is None:
        return NONE
    return f"{each.executors} [yellow]({each.executors_lost} lost)[/]" if each.executors_lost else f"{each.executors}"


def _incidents(each: StreamStatus, _: float) -> str:
    return f"[red]{each.incidents}[/]" if each.incidents else "0"


COLUMNS: Final = (
    Column("stream", _name),
    Column("state", _state),
    Column("rows/s", _rate, right=True),
    Column("lag", _lag, right=True),
    Column("health", _health),
    Column("restarts", _restarts, right=True),
    Column("last exit", _last_exit),
    Column("up", lambda each, now: age(each.since, now), right=True, wide=True),
    Column("batch", _batch, wide=True),
    Column("batches", lambda each, _: number(each.batches), right=True, wide=True),
    Column("rows in", _rows, right=True, wide=True),
    Column("state size", lambda each, _: size(each.state_bytes), right=True, wide=True),
    Column("incidents", _incidents, right=True, wide=True),
    Column("executors", _executors, wide=True),
    Column("pid", lambda each, _: NONE if each.pid is None else str(each.pid), right=True, wide=True),
)


@dataclass(frozen=True)
class _Table:
    """A Rich table whose rows have indented lines below them. Columns that no stream fills are left out."""

    lines: Sequence[StreamStatus]
    now: float
    wide: bool

    def __rich_console__(self, at: object, options: object) -> Iterable[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        width: int = options.max_width  # type: ignore[attr-defined]
        wide = self.wide or width >= WIDE
        columns = [each for each in COLUMNS if wide or not each.wide]
        cells = [[column.cell(each, self.now) for column in columns] for each in self.lines]
        used = [
            at
            for at, column in enumerate(columns)
            if not column.wide or any(row[at] not in (NONE, "") for row in cells)
        ]
        columns, cells = [columns[at] for at in used], [[row[at] for at in used] for row in cells]
        widths = fitted([column.heading for column in columns], cells, width)
        yield _row(columns, widths, [f"[bold]{column.heading}[/]" for column in columns])
        for each, row in zip(self.lines, cells, strict=True):
            yield _row(columns, widths, row)
            for reason in reasons(each, self.now, wide=wide):
                whole = wide or len(self.lines) == 1
                shown = Text.from_markup(" ".join(reason.split()))
                shown.truncate(10_000 if whole else REASON_LINES * (width - 8), overflow="ellipsis")
                yield Padding(shown, (0, 0, 0, 4), style="" if each.in_trouble else "dim")


def fitted(headings: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """The width of each column; the first one, the name, is shortened if they are wider than `width` together."""
    from rich.text import Text

    columns = [[heading, *(row[at] for row in cells)] for at, heading in enumerate(headings)]
    widths = [max(Text.from_markup(cell).cell_len for cell in column) for column in columns]
    over = sum(widths) + len(widths) - 1 - width
    return [max(min(NARROWEST, widths[0]), widths[0] - max(0, over)), *widths[1:]]


def _row(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        grid.add_column(justify="right" if column.right else "left", width=width, no_wrap=True, overflow="ellipsis")
    grid.add_row(*cells)
    return grid
