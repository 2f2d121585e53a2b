"""`resilience`: which faults each stream survived, when, and how long it took to come back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exits import Exit
from streamwarden.cli.output import as_json, plain, say, table, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.cli.words import NONE, age, ago, drill_word
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.drills.resilience import ErrorOfFormula, Resilience


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("resilience")(resilience)


def resilience(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="One stream, in detail.")] = None,
    json: AsJson = False,
) -> int:
    """Show which faults each stream survived in its drills, and when. With STREAM, also how long each recovery took.

    The exit code is 1 if the newest run of a drill deviated, 4 if a fault has not been tried, was not decided, or its
    drill is overdue, and 0 otherwise.
    """
    from streamwarden.services.monitoring.resilience import resilience_of

    space, now = workspace(context), time.time()
    if stream is not None:
        space.catalog().get(stream)
    rows = resilience_of(space.store, space.drills(), stream, now)
    if json:
        as_json([_as_data(row) for row in rows])
    elif stream is None:
        _matrix(rows, now)
    else:
        _detail(rows, now)
    return _exit(rows)


def _matrix(rows: Sequence[Resilience], now: float) -> None:
    """A line for each stream, a column for each fault."""
    from streamwarden.drills.resilience import faults_of

    faults, cells = faults_of(rows), {(row.stream, row.fault): _cell(row, now) for row in rows}
    streams = dict.fromkeys(row.stream for row in rows)
    table(
        ("stream", *(text(fault.replace("_", " ")) for fault in faults)),
        [(text(stream), *(cells.get((stream, fault), NONE) for fault in faults)) for stream in streams],
        empty="There are no drills. Add a file to config/drills.",
    )


def _cell(row: Resilience, now: float) -> str:
    if not row.trials:
        return "[yellow]never, overdue[/]" if row.overdue else "[yellow]never[/]"
    late = ", [yellow]overdue[/]" if row.overdue else ""
    return f"{drill_word(row.verdict)} {age(row.trials[0].at, now)}{late}"


def _detail(rows: Sequence[Resilience], now: float) -> None:
    table(
        ("fault", "newest run", "last survived", "passed", "recovery (seconds)", "predictions: median error, worst"),
        [
            (
                text(row.fault),
                _cell(row, now),
                ago(row.survived_at, now),
                f"{sum(trial.verdict == 'PASSED' for trial in row.trials)} of {len(row.trials)}",
                _recoveries(row.recoveries),
                "\n".join(_error(each) for each in row.errors) or NONE,
            )
            for row in rows
        ],
        empty="No drill is configured for this stream. Add a file to config/drills.",
    )
    for row in rows:
        if row.overdue:
            say(f"overdue: {text(', '.join(row.overdue))}")


def _recoveries(seconds: Sequence[float]) -> str:
    """`median 8.3, 7.9 to 12.4, newest 8.1`."""
    if not seconds:
        return NONE
    return f"median {median(seconds):.1f}, {min(seconds):.1f} to {max(seconds):.1f}, newest {seconds[0]:.1f}"


def _error(each: ErrorOfFormula) -> str:
    runs = format_count(each.runs, "run")
    return f"{100 * each.median:+.0f} %, {100 * each.worst:+.0f} % in {runs}: {text(each.formula)}"


def _exit(rows: Sequence[Resilience]) -> Exit:
    if any(row.verdict == "DEVIATED" for row in rows):
        return Exit.BAD
    return Exit.UNDECIDED if any(row.overdue or row.verdict != "PASSED" for row in rows) else Exit.OK


def _as_data(row: Resilience) -> dict[str, object]:
    return {
        **plain(row),
        "verdict": row.verdict,
        "survived_at": row.survived_at,
        "recoveries": list(row.recoveries),
        "errors": plain(row.errors),
    }
