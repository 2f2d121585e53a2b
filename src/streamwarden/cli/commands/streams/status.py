"""`status`: one line for each stream, those in trouble first, each with its reason below it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streamwarden.cli.commands.streams.status_columns import COLUMNS, exit_at
from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, held_back, number, short
from streamwarden.cli.output import as_json, console, text
from streamwarden.cli.session import AsJson, MaybeQuery, duration, workspace
from streamwarden.errors import StoreError
from streamwarden.lifecycle.queries import SEPARATOR, owner
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.services.overview.order import by_trouble

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

    from streamwarden.health.evaluations import LastRound
    from streamwarden.services.overview.status import StreamStatus
    from streamwarden.services.workspace import Workspace

WIDE: Final = 150
"""Columns of a terminal on which every reason is shown whole."""
REASON_LINES: Final = 2
"""Lines of a reason on a narrow screen of many streams; `status STREAM` and `--wide` show all of it."""
NARROWEST: Final = 12
"""Columns of the stream's name at least."""


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
    statuses, last, now = _read(space, stream)
    if json:
        as_json({"at": now, "last_evaluation": last, "streams": statuses})
    else:
        _screen(wide).print(page(statuses, last, now, wide=wide, everything=everything or stream is not None))
    return Exit.BAD if any(row.in_trouble for row in statuses) else Exit.OK


def _read(space: Workspace, stream: str | None) -> tuple[list[StreamStatus], LastRound, float]:
    """The streams, when they were judged last, and the time."""
    from streamwarden.health.evaluations import last_round
    from streamwarden.services.overview.status import gather

    now = time.time()
    return gather(space, stream, now=now), last_round(space.store.evaluations.all(), now), now


def _interval(given: str, json: bool) -> float:
    if json:
        raise typer.BadParameter("it draws a table; run `status --json` as often as you need", param_hint="--watch")
    return max(0.2, duration(given, "--every"))


def _watch(space: Workspace, stream: str | None, interval: float, *, wide: bool, everything: bool) -> int:
    """Draw until Ctrl-C. While the store does not answer, the last state stays on the screen with the reason."""
    from rich.console import Group
    from rich.live import Live

    (statuses, last, seen_at), failure = _read(space, stream), ""

    def draw() -> RenderableType:
        shown = page(statuses, last, seen_at, wide=wide, everything=everything or stream is not None)
        clock = datetime.fromtimestamp(seen_at).strftime("%H:%M:%S")
        problem = f"; [red]not updated since, because {text(failure)}[/]" if failure else ""
        return Group(shown, f"[dim]{clock}, every {interval:g} s; Ctrl-C ends it[/]{problem}")

    screen = _screen(wide)
    try:
        with Live(draw(), console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                try:
                    (statuses, last, seen_at), failure = _read(space, stream), ""
                except StoreError as error:
                    failure = str(error)
                live.update(draw(), refresh=True)
    except KeyboardInterrupt:
        return Exit.OK


def _screen(wide: bool) -> Console:
    """The console; if everything is to be shown on a narrow terminal, that wraps the lines."""
    screen = console()
    if wide:
        screen.width = max(screen.width, WIDE)
    return screen


def page(found: Sequence[StreamStatus], last: LastRound, now: float, *, wide: bool, everything: bool) -> RenderableType:
    """The whole screen. Without evaluations every verdict on it is old: its last line says when the last one was."""
    from rich.console import Group

    if not found:
        return "No streams: add a file to config/streams."
    folded = [] if everything else [row for row in found if row.state == "new" and not row.batches]
    lines = [row for row in by_trouble(found) if row not in folded]
    parts: list[RenderableType] = [_Table(lines, now, wide)] if lines else []
    if folded:
        names = ", ".join(text(row.stream) for row in folded)
        parts.append(f"[dim]{len(folded)} never started: {names} (--all shows a line for each)[/]")
    parts.append(f"[yellow]{text(last.text)}[/]" if last.late else f"[dim]{text(last.text)}[/]")
    return Group(*parts)


def reasons(row: StreamStatus, now: float, *, wide: bool = False) -> list[str]:
    """The lines below a stream's row: errors, alarms, mutes. `wide`: also why a stream was stopped."""
    lines = []
    if row.problem and (wide or row.lacks_driver or not row.declared):
        lines.append(text(row.problem))
    if causes := [cause for cause in row.health_causes if cause != row.state] if row.shows_health else []:
        others = f" (also {', '.join(causes[1:])})" if causes[1:] else ""
        lines.append(text(f"{causes[0]}: {row.health_reason}{others}"))
    if row.executors_lost:
        lines.append(f"executors: {row.executors} alive, {row.executors_lost} lost by this driver")
    if row.cured is not None:
        what = f"last exit: {exit_at(row.cured.exit.kind, row.cured.exit.ended_at, now)}"
        again = row.cured.restarted_at - row.cured.exit.ended_at
        lines.append(text(f"{what}, restarted after {short(again)}: {describe(row.cured.exit)}"))
    if row.mute is not None and not (SEPARATOR in row.stream and row.mute.covers(owner(row.stream))):
        lines.append(text(held_back(row.mute)))  # of a stream with several queries, once
    if row.not_kept:
        lines.append(f"{number(row.not_kept)} malformed rows were not kept in the quarantine")
    return lines


@dataclass(frozen=True)
class _Table:
    """A Rich table whose rows have indented lines below them. Columns that no stream fills are left out."""

    lines: Sequence[StreamStatus]
    now: float
    wide: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.segment import Segment, Segments
        from rich.text import Text

        width = options.max_width
        whole = self.wide or width >= WIDE or len(self.lines) == 1
        table = fitted(self.lines, self.now, width, wide=self.wide)
        for row, line in zip((None, *self.lines), console.render_lines(table, options, pad=False), strict=True):
            yield Segments([*line, Segment.line()])
            for reason in reasons(row, self.now, wide=self.wide or width >= WIDE) if row is not None else ():
                shown = Text.from_markup(" ".join(reason.split()))
                shown.truncate(10_000 if whole else REASON_LINES * (width - 8), overflow="ellipsis")
                yield Padding(shown, (0, 0, 0, 4), style="" if row is not None and row.in_trouble else "dim")


def fitted(lines: Sequence[StreamStatus], now: float, width: int, *, wide: bool) -> Table:
    """The table for a screen of `width`: of the wide columns those that a stream fills, as many as fit; with `wide` all
    of them. The names are shortened if even the others do not fit."""
    from rich.table import Table
    from rich.text import Text

    table, used = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold"), -1
    chosen: list[Sequence[str]] = []
    for column in COLUMNS:
        cells = [column.cell(row, now) for row in lines]
        if column.wide and all(cell == NONE for cell in cells):
            continue
        needed = used + 1 + max(Text.from_markup(cell).cell_len for cell in (column.heading, *cells))
        if column.wide and not wide and needed > width:
            break
        used = needed
        table.add_column(column.heading, justify="right" if column.right else "left", no_wrap=True)
        chosen.append(cells)
    for line in zip(*chosen, strict=True):
        table.add_row(*line)
    names = max(len(row.stream) for row in lines)
    table.columns[0].max_width = max(min(NARROWEST, names), names - max(0, used - width))
    return table
