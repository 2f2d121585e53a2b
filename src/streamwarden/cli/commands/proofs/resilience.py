"""`resilience`: which faults each stream survived, when, and how long it took to come back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from streamwarden.cli.exit_codes import Exit
from streamwarden.cli.formatting import NONE, age, ago, drill_word
from streamwarden.cli.output import as_json, plain, say, table, text
from streamwarden.cli.session import AsJson, workspace
from streamwarden.units import format_count

if TYPE_CHECKING:
    from streamwarden.drills.reporting.resilience import Cell, ErrorOfFormula, Resilience


def resilience(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="One stream, in detail.")] = None,
    json: AsJson = False,
) -> int:
    """Show which faults each stream survived in its drills, and when. With STREAM, also how long each recovery took.

    A fault may have several variants, such as the moments of kill_driver. Each is judged by its own newest run, and the
    table shows the worst of them. The exit code is 1 if the newest run of a variant deviated, 4 if one has not been
    tried, was not decided, or its drill is overdue, and 0 otherwise. Variants that no drill is configured for count
    only if there are no others of the fault.
    """
    from streamwarden.services.monitoring.resilience import resilience_of

    space, now = workspace(context), time.time()
    if stream is not None:
        space.require_known(stream)
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
    from streamwarden.drills.reporting.resilience import cells, faults_of

    faults, shown = faults_of(rows), {(cell.stream, cell.fault): _cell(cell, now) for cell in cells(rows)}
    streams = dict.fromkeys(row.stream for row in rows)
    table(
        ("stream", *(text(fault.replace("_", " ")) for fault in faults)),
        [(text(stream), *(shown.get((stream, fault), NONE) for fault in faults)) for stream in streams],
        empty="There are no drills. Add a file to config/drills.",
    )


def _cell(cell: Cell, now: float) -> str:
    """`DEVIATED 2d 3h, 1 of 5 never tried, overdue`."""
    if cell.worst is None:
        return "[yellow]never, overdue[/]" if cell.overdue else "[yellow]never[/]"
    count = f"{len(cell.untried)} of {len(cell.judged)}"
    untried = f", [yellow]{count} never tried[/]" if cell.untried else ""
    return f"{_newest(cell.worst, now)}{untried}{_late(cell.overdue)}"


def _newest(row: Resilience, now: float) -> str:
    return f"{drill_word(row.verdict)} {age(row.trials[0].at, now)}" if row.trials else "[yellow]never[/]"


def _late(overdue: Sequence[str]) -> str:
    return ", [yellow]overdue[/]" if overdue else ""


def _detail(rows: Sequence[Resilience], now: float) -> None:
    table(
        (
            "fault",
            "variant",
            "newest run",
            "last survived",
            "passed",
            "struck",
            "recovery (seconds)",
            "predictions: median error, worst",
        ),
        [
            (
                text(row.fault),
                text(row.variant) or NONE,
                _newest(row, now) + _late(row.overdue),
                ago(row.survived_at, now),
                f"{sum(trial.verdict == 'PASSED' for trial in row.trials)} of {len(row.trials)}",
                "\n".join(f"{count} {phase}" for phase, count in row.phases.items()) or NONE,
                _recoveries(row.recoveries),
                "\n".join(_error(error) for error in row.errors) or NONE,
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


def _error(error: ErrorOfFormula) -> str:
    runs = format_count(error.runs, "run")
    return f"{100 * error.median:+.0f} %, {100 * error.worst:+.0f} % in {runs}: {text(error.formula)}"


def _exit(rows: Sequence[Resilience]) -> Exit:
    from streamwarden.drills.reporting.resilience import cells

    table_cells = cells(rows)
    if any(cell.verdict == "DEVIATED" for cell in table_cells):
        return Exit.BAD
    decided = all(cell.verdict == "PASSED" and not cell.untried and not cell.overdue for cell in table_cells)
    return Exit.OK if decided else Exit.UNDECIDED


def _as_data(row: Resilience) -> dict[str, object]:
    return {
        **plain(replace(row, trials=row.recent)),
        "verdict": row.verdict,
        "survived_at": row.survived_at,
        "recoveries": list(row.recoveries),
        "phases": row.phases,
        "errors": plain(row.errors),
    }
